package serverlog_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/serverlog"
)

// Lines of Kafka 4.3.1.
const (
	caughtUp = "2026-11-21 05:31:25,026 INFO [broker-0-lifecycle-manager-event-handler] [BrokerLifecycleManager id=0] The broker has caught up. Transitioning from STARTING to RECOVERY. (org.apache.kafka.server.BrokerLifecycleManager)\n"
	unfenced = "2026-11-21 05:31:25,877 INFO [broker-0-lifecycle-manager-event-handler] [BrokerLifecycleManager id=0] The broker has been unfenced. Transitioning from RECOVERY to RUNNING. (org.apache.kafka.server.BrokerLifecycleManager)\n"
	other    = "2026-11-21 05:31:20,723 INFO [main] [BrokerServer id=0] Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)\n"
)

func TestOutputIsCopiedAndRecognised(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10) + "\n"
	for name, c := range map[string]struct {
		output string
		want   []serverlog.Event
	}{
		"a start":                             {other + caughtUp + unfenced + other, []serverlog.Event{serverlog.Recovering, serverlog.Running}},
		"a line longer than any buffer":       {long + unfenced, []serverlog.Event{serverlog.Running}},
		"nothing is looked for after a start": {unfenced + caughtUp, []serverlog.Event{serverlog.Running}},
		"a last line without an end":          {other + "the end", nil},
		"nothing":                             {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var copied bytes.Buffer
			var got []serverlog.Event
			serverlog.Pump(strings.NewReader(c.output), &copied, func(e serverlog.Event) { got = append(got, e) })
			if copied.String() != c.output {
				t.Errorf("copied %d bytes, want the %d of the output", copied.Len(), len(c.output))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("nobody reads any more") }

func TestOutputThatNobodyReadsDoesNotStopTheServer(t *testing.T) {
	t.Parallel()
	output := strings.NewReader(other + unfenced + other)
	serverlog.Pump(output, broken{}, func(serverlog.Event) {})
	if output.Len() != 0 {
		t.Errorf("%d bytes are left unread", output.Len())
	}
}
