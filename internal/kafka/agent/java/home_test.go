package java_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/java"
)

// installed makes a home of Kafka and one of Java with the files.
func installed(t *testing.T, files ...string) (java.Kafka, string) {
	t.Helper()
	home := t.TempDir()
	for _, file := range append(files, "java/bin/java") {
		path := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kafka, err := java.Find(home, filepath.Join(home, "java"))
	if err != nil {
		t.Fatal(err)
	}
	return kafka, home
}

func TestServerIsStartedWithoutAShell(t *testing.T) {
	t.Parallel()
	kafka, home := installed(t, "libs/b.jar", "libs/a.jar", "libs/a-sources.jar", "libs/connect-file-4.3.1.jar", "libs/kafka-test.jar")
	got := kafka.Server([]string{"-Xmx1g", "-Dx=y z"}, java.Logging{Log4j2: "/etc/log4j2.properties"}, "/run/server.properties")
	want := []string{
		"-Djava.awt.headless=true", "-Dlog4j2.configurationFile=/etc/log4j2.properties", "-Xmx1g", "-Dx=y z",
		"-cp", home + "/libs/a-sources.jar:" + home + "/libs/a.jar:" + home + "/libs/b.jar", "kafka.Kafka", "/run/server.properties",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if kafka.Java != home+"/java/bin/java" {
		t.Errorf("launcher %s", kafka.Java)
	}
}

func TestFormatBeginsQuickly(t *testing.T) {
	t.Parallel()
	kafka, home := installed(t, "libs/a.jar", "storage.jsa")
	got := kafka.Format(java.FormatSpec{ClusterID: "-id", MetadataVersion: "4.2", Properties: "/run/server.properties"})
	want := []string{
		"-Xshare:auto", "-XX:SharedArchiveFile=" + home + "/storage.jsa",
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Djava.awt.headless=true",
		"-cp", home + "/libs/a.jar", "kafka.tools.StorageTool",
		"format", "--ignore-formatted", "--cluster-id=-id", "--config", "/run/server.properties", "--release-version", "4.2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestServersBeforeKafka4ReadAnotherConfigurationOfTheLog(t *testing.T) {
	t.Parallel()
	kafka, _ := installed(t, "libs/a.jar")
	logging := java.Logging{Log4j1: "/etc/log4j.properties"}
	for what, got := range map[string][]string{
		"server": kafka.Server(nil, logging, "/run/server.properties"),
		"format": kafka.Format(java.FormatSpec{ClusterID: "id", Logging: logging}),
	} {
		if !slices.Contains(got, "-Dlog4j.configuration=file:/etc/log4j.properties") {
			t.Errorf("%s: arguments %v do not name the configuration", what, got)
		}
	}
}

func TestFormatLeavesTheMetadataVersionToKafka(t *testing.T) {
	t.Parallel()
	kafka, _ := installed(t, "libs/a.jar")
	if got := kafka.Format(java.FormatSpec{ClusterID: "id"}); slices.Contains(got, "--release-version") {
		t.Errorf("arguments %v name a version", got)
	}
}

func TestServerUsesItsArchive(t *testing.T) {
	t.Parallel()
	kafka, home := installed(t, "libs/a.jar", "kafka.jsa")
	if got := kafka.Server(nil, java.Logging{}, ""); !slices.Contains(got, "-XX:SharedArchiveFile="+home+"/kafka.jsa") {
		t.Errorf("arguments %v, want the archive", got)
	}
}

func TestMissingPartsAreNamed(t *testing.T) {
	t.Parallel()
	_, home := installed(t, "libs/a.jar")
	for name, c := range map[string]struct{ home, java, names string }{
		"no Kafka": {t.TempDir(), filepath.Join(home, "java"), "libs"},
		"no Java":  {home, t.TempDir(), "JAVA_HOME"},
	} {
		if _, err := java.Find(c.home, c.java); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: error %v, want one that names %s", name, err, c.names)
		}
	}
}
