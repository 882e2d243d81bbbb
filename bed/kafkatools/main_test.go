package main

import (
	"slices"
	"testing"
)

func TestOptionsFollowTheirVariables(t *testing.T) {
	t.Parallel()
	set := map[string]string{"SPACED": "-Xms64m  -Xmx64m", "EMPTY": ""}
	lookup := func(name string) (string, bool) {
		value, found := set[name]
		return value, found
	}
	for variable, want := range map[string][]string{
		"SPACED": {"-Xms64m", "-Xmx64m"},
		"EMPTY":  {},
		"UNSET":  {"-a", "-b"},
	} {
		if got := (option{variable, "-a -b"}).words(lookup); !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", variable, got, want)
		}
	}
}

func TestTheBrokerLogsAsABroker(t *testing.T) {
	t.Parallel()
	logging := option{"KAFKA_LOG4J_OPTS", "-Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml"}
	if got := defaults(broker); !slices.Contains(got, logging) {
		t.Errorf("defaults() = %q, want %q among them", got, logging)
	}
	if got := defaults("kafka.tools.StorageTool"); slices.Contains(got, logging) {
		t.Errorf("a tool logs as a broker: %q", got)
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
