// Command kafkatools runs Kafka's command line tools in an image that has no shell: each name that the official
// image's /opt/kafka/bin has for a script is a link to it, and stands for the same main class.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	java      = "/opt/java/openjdk/bin/java"
	libraries = "/opt/kafka/libs/*.jar"
	broker    = "kafka.Kafka"
)

// classes maps the names of the official scripts to the main classes that they run.
func classes() map[string]string {
	return map[string]string{
		"kafka-acls.sh":                      "org.apache.kafka.tools.AclCommand",
		"kafka-broker-api-versions.sh":       "org.apache.kafka.tools.BrokerApiVersionsCommand",
		"kafka-cluster.sh":                   "org.apache.kafka.tools.ClusterTool",
		"kafka-configs.sh":                   "kafka.admin.ConfigCommand",
		"kafka-console-consumer.sh":          "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"kafka-console-producer.sh":          "org.apache.kafka.tools.ConsoleProducer",
		"kafka-consumer-groups.sh":           "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"kafka-consumer-perf-test.sh":        "org.apache.kafka.tools.ConsumerPerformance",
		"kafka-dump-log.sh":                  "org.apache.kafka.tools.DumpLogSegments",
		"kafka-features.sh":                  "org.apache.kafka.tools.FeatureCommand",
		"kafka-get-offsets.sh":               "org.apache.kafka.tools.GetOffsetShell",
		"kafka-leader-election.sh":           "org.apache.kafka.tools.LeaderElectionCommand",
		"kafka-log-dirs.sh":                  "org.apache.kafka.tools.LogDirsCommand",
		"kafka-metadata-quorum.sh":           "org.apache.kafka.tools.MetadataQuorumCommand",
		"kafka-producer-perf-test.sh":        "org.apache.kafka.tools.ProducerPerformance",
		"kafka-reassign-partitions.sh":       "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
		"kafka-server-start.sh":              broker,
		"kafka-storage.sh":                   "kafka.tools.StorageTool",
		"kafka-topics.sh":                    "org.apache.kafka.tools.TopicCommand",
		"kafka-verifiable-consumer.sh":       "org.apache.kafka.tools.VerifiableConsumer",
		"kafka-verifiable-producer.sh":       "org.apache.kafka.tools.VerifiableProducer",
		"kafka-run-class.sh":                 "", // the class is the first argument
		"kafka-delegation-tokens.sh":         "org.apache.kafka.tools.DelegationTokenCommand",
		"kafka-client-metrics.sh":            "org.apache.kafka.tools.ClientMetricsCommand",
		"kafka-transactions.sh":              "org.apache.kafka.tools.TransactionsCommand",
		"kafka-groups.sh":                    "org.apache.kafka.tools.GroupsCommand",
		"kafka-delete-records.sh":            "org.apache.kafka.tools.DeleteRecordsCommand",
		"kafka-streams-application-reset.sh": "org.apache.kafka.tools.StreamsResetter",
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--names" {
		fmt.Println(strings.Join(slices.Sorted(maps.Keys(classes())), "\n"))
		return
	}
	err := run(filepath.Base(os.Args[0]), os.Args[1:])
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run becomes the Java program; it returns only when that fails.
func run(name string, args []string) error {
	class, known := classes()[name]
	if !known {
		return fmt.Errorf("%s is none of Kafka's tools", name)
	}
	if class == "" && len(args) == 0 {
		return fmt.Errorf("%s needs the name of a class", name)
	}
	jars, err := filepath.Glob(libraries)
	if err != nil {
		return err
	}
	command := []string{"java"}
	for _, o := range defaults(class) {
		command = append(command, o.words(os.LookupEnv)...)
	}
	command = append(command, "-cp", strings.Join(jars, ":"))
	if class != "" {
		command = append(command, class)
	}
	return fmt.Errorf("running %s: %w", java, syscall.Exec(java, append(command, args...), os.Environ()))
}

// option is a variable that holds options for Java, and what holds when it is not set.
type option struct{ variable, otherwise string }

// defaults are those of the official scripts, but that tools are compiled only a little: they end before more pays.
func defaults(class string) []option {
	heap, performance, logging := "-Xmx256M", "-XX:TieredStopAtLevel=1", "tools-log4j2.yaml"
	if class == broker {
		heap, performance, logging = "-Xmx1G", "-XX:SharedArchiveFile=/opt/kafka/kafka.jsa", "log4j2.yaml"
	}
	return []option{
		{"KAFKA_HEAP_OPTS", heap},
		{"KAFKA_OPTS", ""},
		{"KAFKA_JVM_PERFORMANCE_OPTS", performance},
		{"KAFKA_LOG4J_OPTS", "-Dlog4j2.configurationFile=/opt/kafka/config/" + logging},
	}
}

// words takes the variable's value apart at its spaces.
func (o option) words(lookup func(string) (string, bool)) []string {
	if value, set := lookup(o.variable); set {
		return strings.Fields(value)
	}
	return strings.Fields(o.otherwise)
}
