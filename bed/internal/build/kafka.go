package build

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/keyturn/keyturn/bed/internal/versions"
)

//go:embed kafka-pom.xml
var kafkaPOM string

// KafkaJars fetches a Kafka release, its tools and everything they need at run time, as jars from Maven Central.
func (b Builder) KafkaJars(ctx context.Context, version string) (string, error) {
	var pom strings.Builder
	parsed, err := template.New("pom").Parse(kafkaPOM)
	if err != nil {
		return "", fmt.Errorf("reading the list of jars: %w", err)
	}
	if err := parsed.Execute(&pom, struct {
		Kafka, Log4j, Reload4j, SLF4J1 string
		HasLog4j1                      bool
	}{version, versions.Log4j, versions.Reload4j, versions.SLF4J1, versions.HasLog4j1(version)}); err != nil {
		return "", fmt.Errorf("rendering the list of jars: %w", err)
	}
	return b.Do(ctx, Step{Name: "kafka-jars-" + version, Inputs: []string{pom.String()}, Make: func(ctx context.Context, dir string) error {
		if err := b.Ensure(ctx, mavenNeeds()); err != nil {
			return err
		}
		work, err := os.MkdirTemp("", "bed-kafka-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(work) }() // only the list of jars lies there
		if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom.String()), 0o644); err != nil {
			return err
		}
		return b.run(ctx, work, nil, "mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+dir)
	}})
}

// KafkaHome is a directory in which KafkaJars are libs, as in Kafka's own archive.
func (b Builder) KafkaHome(ctx context.Context, version string) (string, error) {
	jars, err := b.KafkaJars(ctx, version)
	if err != nil {
		return "", err
	}
	return b.Do(ctx, Step{Name: "kafka-home-" + version, Inputs: []string{jars}, Make: func(_ context.Context, dir string) error {
		if err := os.Symlink(jars, filepath.Join(dir, "libs")); err != nil {
			return fmt.Errorf("laying out Kafka %s: %w", version, err)
		}
		return nil
	}})
}
