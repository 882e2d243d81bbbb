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
	logging   = "/opt/kafka/config/tools-log4j2.yaml"
	// heap is what the official scripts give their tools.
	heap = "-Xmx256M"
)

// classes maps the names of the official scripts to the main classes that they run.
var classes = map[string]string{
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
	"kafka-server-start.sh":              "kafka.Kafka",
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

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--names" {
		fmt.Println(strings.Join(slices.Sorted(maps.Keys(classes)), "\n"))
		return
	}
	err := run(filepath.Base(os.Args[0]), os.Args[1:])
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run becomes the Java program; it returns only when that fails.
func run(name string, args []string) error {
	class, known := classes[name]
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
	options := []string{"java"}
	for _, variable := range []struct{ name, otherwise string }{
		{"KAFKA_HEAP_OPTS", heap}, {"KAFKA_OPTS", ""}, {"KAFKA_JVM_PERFORMANCE_OPTS", "-XX:TieredStopAtLevel=1"}, {"KAFKA_LOG4J_OPTS", "-Dlog4j2.configurationFile=" + logging},
	} {
		value, set := os.LookupEnv(variable.name)
		if !set {
			value = variable.otherwise
		}
		options = append(options, strings.Fields(value)...)
	}
	options = append(options, "-cp", strings.Join(jars, ":"))
	if class != "" {
		options = append(options, class)
	}
	return fmt.Errorf("running %s: %w", java, syscall.Exec(java, append(options, args...), os.Environ()))
}
