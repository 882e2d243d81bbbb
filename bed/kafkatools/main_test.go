package main

import (
	"slices"
	"testing"
)

func TestOptionsFollowTheVariables(t *testing.T) {
	t.Parallel()
	set := map[string]string{"KAFKA_HEAP_OPTS": "-Xms64m  -Xmx64m", "KAFKA_JVM_PERFORMANCE_OPTS": ""}
	lookup := func(name string) (string, bool) {
		value, found := set[name]
		return value, found
	}
	got := options(defaults("kafka.tools.StorageTool"), lookup)
	want := []string{"-Xms64m", "-Xmx64m", "-Dlog4j2.configurationFile=/opt/kafka/config/tools-log4j2.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("options() = %q, want %q", got, want)
	}
}

func TestTheBrokerLogsAsABroker(t *testing.T) {
	t.Parallel()
	got := options(defaults(broker), func(string) (string, bool) { return "", false })
	if !slices.Contains(got, "-Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml") {
		t.Errorf("options() = %q", got)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	t.Parallel()
	if err := run("kafka-nothing.sh", nil); err == nil {
		t.Error("an unknown tool runs")
	}
	if err := run("kafka-run-class.sh", nil); err == nil {
		t.Error("kafka-run-class.sh runs without a class")
	}
}
