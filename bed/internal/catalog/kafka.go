package catalog

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/bed/internal/build"
	"github.com/keyturn/keyturn/bed/internal/images"
	"github.com/keyturn/keyturn/bed/internal/versions"
)

// Where things lie in a Kafka image, as in the official one.
const (
	kafkaHome = "/opt/kafka"
	javaHome  = "/opt/java/openjdk"
	// kafkaUser may be changed by a pod: every file is readable, and the folders for data are open, for any user.
	kafkaUser = "1001:0"
)

//go:embed log4j2.yaml
var kafkaLogging string

// log4j1Logging is for Kafka before 4.0.
//
//go:embed log4j.properties
var log4j1Logging string

//go:embed tools-log4j2.yaml
var toolsLogging string

func kafka(version string) func(context.Context, build.Builder) (images.Image, error) {
	return func(ctx context.Context, builder build.Builder) (images.Image, error) {
		base, err := javaLayer(ctx, builder)
		if err != nil {
			return images.Image{}, err
		}
		release, err := kafkaLayer(ctx, builder, version)
		if err != nil {
			return images.Image{}, err
		}
		tools, err := kafkaTools(ctx, builder)
		if err != nil {
			return images.Image{}, err
		}
		recorded, err := archives(ctx, builder, version, [][]images.File{base, release})
		if err != nil {
			return images.Image{}, err
		}
		return images.Image{
			Layers:      [][]images.File{base, release, tools, recorded},
			Entrypoint:  []string{kafkaHome + "/bin/kafka-server-start.sh"},
			Command:     []string{kafkaHome + "/config/server.properties"},
			User:        kafkaUser,
			Environment: kafkaEnvironment(version),
		}, nil
	}
}

func kafkaEnvironment(version string) map[string]string {
	return map[string]string{
		"JAVA_HOME":     javaHome,
		"KAFKA_VERSION": version,
		"LANG":          "C.UTF-8",
		"PATH":          javaHome + "/bin:" + kafkaHome + "/bin:/usr/local/bin:/usr/bin:/bin",
	}
}

// javaLayer is the part that every Kafka version shares: the Java runtime, the C libraries below it, and the few files
// that they read.
func javaLayer(ctx context.Context, builder build.Builder) ([]images.File, error) {
	dir, err := builder.Java(ctx)
	if err != nil {
		return nil, err
	}
	libraries, err := images.Tree("/", filepath.Join(dir, "root"))
	if err != nil {
		return nil, err
	}
	runtime, err := images.Tree(javaHome, filepath.Join(dir, "java"))
	if err != nil {
		return nil, err
	}
	return append(slices.Concat(libraries, runtime),
		images.Directory("/tmp", 0o777),
		images.Directory("/home/kafka", 0o777),
		images.Text("/etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nkafka:x:1001:0:kafka:/home/kafka:/sbin/nologin\n"),
		images.Text("/etc/group", "root:x:0:\nkafka:x:1001:\n"),
		images.Text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
	), nil
}

// kafkaLayer is one release: its jars, settings for logs, and the folders for what it writes.
func kafkaLayer(ctx context.Context, builder build.Builder, version string) ([]images.File, error) {
	dir, err := builder.KafkaJars(ctx, version)
	if err != nil {
		return nil, err
	}
	files, err := images.Tree(kafkaHome+"/libs", dir)
	if err != nil {
		return nil, err
	}
	if versions.HasLog4j1(version) {
		files = append(files, images.Text(kafkaHome+"/config/log4j.properties", log4j1Logging))
	}
	return append(files,
		images.Text(kafkaHome+"/config/log4j2.yaml", kafkaLogging),
		images.Text(kafkaHome+"/config/tools-log4j2.yaml", toolsLogging),
		images.Directory(kafkaHome+"/logs", 0o777),
		images.Directory("/var/lib/kafka/data", 0o777),
		images.Directory("/mnt/shared/config", 0o755),
		images.Directory("/etc/kafka/secrets", 0o755),
	), nil
}

// kafkaTools is the launcher under the names of the official scripts.
func kafkaTools(ctx context.Context, builder build.Builder) ([]images.File, error) {
	dir, err := builder.Own(ctx, "kafkatools")
	if err != nil {
		return nil, err
	}
	tool := filepath.Join(dir, "kafkatools")
	said, err := exec.CommandContext(ctx, tool, "--names").Output()
	if err != nil {
		return nil, fmt.Errorf("asking for the names of Kafka's tools: %w", err)
	}
	files := []images.File{{Path: kafkaHome + "/bin/kafkatools", Mode: fs.FileMode(0o755), Source: tool}}
	for name := range strings.FieldsSeq(string(said)) {
		files = append(files, images.Link(kafkaHome+"/bin/"+name, "kafkatools"))
	}
	return files, nil
}
