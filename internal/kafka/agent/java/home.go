package java

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// DefaultHome is where the official images keep Kafka.
const DefaultHome = "/opt/kafka"

// imageJava is where the official images keep the Java runtime.
const imageJava = "/opt/java/openjdk/bin/java"

// Class data archives of the official images, in Kafka's home. A JVM that starts
// with one has its classes parsed and verified already; one that does not fit
// (other runtime, other class path) is ignored.
const (
	serverArchive  = "kafka.jsa"
	storageArchive = "storage.jsa"
)

// Main classes.
const (
	serverClass  = "kafka.Kafka"
	storageClass = "kafka.tools.StorageTool"
)

// Kafka is an installed Kafka and the Java runtime that runs it.
type Kafka struct {
	// Java is the launcher's path.
	Java string
	// home is Kafka's directory.
	home string
	// classPath names every jar, sorted: the order in which Kafka's own script
	// puts them, and in which the archives were made.
	classPath string
}

var errNoJava = errors.New("no Java runtime found: neither JAVA_HOME nor PATH names one, and " + imageJava + " does not exist")

// notOnClassPath are the jars that Kafka's own script leaves out. The archives
// of the official image are of no use with another class path.
func notOnClassPath() *regexp.Regexp {
	return regexp.MustCompile(`(-(test|test-sources|src|scaladoc|javadoc)\.jar|jar\.asc|connect-file.*\.jar)$`)
}

// Find looks for Kafka in its home and for Java in JAVA_HOME (may be empty), in
// PATH, and where the official images have it.
func Find(home, javaHome string) (Kafka, error) {
	jars, err := filepath.Glob(filepath.Join(home, "libs", "*.jar"))
	if err != nil {
		return Kafka{}, fmt.Errorf("looking for Kafka's jars: %w", err)
	}
	excluded := notOnClassPath()
	jars = slices.DeleteFunc(jars, excluded.MatchString)
	if len(jars) == 0 {
		return Kafka{}, fmt.Errorf("no Kafka found: %s holds no jars: %w", filepath.Join(home, "libs"), fs.ErrNotExist)
	}
	slices.Sort(jars)
	launcher, err := findJava(javaHome)
	if err != nil {
		return Kafka{}, err
	}
	return Kafka{Java: launcher, home: home, classPath: strings.Join(jars, string(os.PathListSeparator))}, nil
}

func findJava(javaHome string) (string, error) {
	if javaHome != "" {
		launcher := filepath.Join(javaHome, "bin", "java")
		if _, err := os.Stat(launcher); err != nil {
			return "", fmt.Errorf("JAVA_HOME holds no Java runtime: %w", err)
		}
		return launcher, nil
	}
	if launcher, err := exec.LookPath("java"); err == nil {
		return launcher, nil
	}
	if _, err := os.Stat(imageJava); err == nil {
		return imageJava, nil
	}
	return "", errNoJava
}

// Server returns the arguments of a Java launcher that runs the server with the
// properties file.
func (k Kafka) Server(options []string, logging Logging, properties string) []string {
	args := k.archive(serverArchive)
	args = append(args, "-Djava.awt.headless=true")
	args = append(args, logging.options()...)
	args = append(args, options...)
	return append(args, "-cp", k.classPath, serverClass, properties)
}

// FormatSpec says how data directories are formatted.
type FormatSpec struct {
	ClusterID string
	// MetadataVersion is a release or a metadata version; empty means the newest
	// that the installed Kafka has.
	MetadataVersion string
	// Properties is the path of the server's configuration.
	Properties string
	Logging    Logging
}

// Logging are the paths of the configurations of the log for the libraries of logs that Kafka has had, empty where
// there is none.
type Logging struct {
	Log4j2, Log4j1 string
}

func (l Logging) options() []string {
	var options []string
	if l.Log4j2 != "" {
		options = append(options, "-Dlog4j2.configurationFile="+l.Log4j2)
	}
	if l.Log4j1 != "" {
		options = append(options, "-Dlog4j.configuration=file:"+l.Log4j1)
	}
	return options
}

// Format returns the arguments of a Java launcher that formats the data
// directories which are not formatted yet. The JVM is told to begin quickly: the
// tool runs for a second.
func (k Kafka) Format(spec FormatSpec) []string {
	args := k.archive(storageArchive)
	args = append(args, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Djava.awt.headless=true")
	args = append(args, spec.Logging.options()...)
	args = append(args, "-cp", k.classPath, storageClass,
		// One word, because an id may begin with a dash.
		"format", "--ignore-formatted", "--cluster-id="+spec.ClusterID, "--config", spec.Properties)
	if spec.MetadataVersion != "" {
		args = append(args, "--release-version", spec.MetadataVersion)
	}
	return args
}

// archive uses a class data archive of the image where there is one.
func (k Kafka) archive(name string) []string {
	path := filepath.Join(k.home, name)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{"-Xshare:auto", "-XX:SharedArchiveFile=" + path}
}
