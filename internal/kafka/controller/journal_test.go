package controller

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
)

// logging is a Reconciler, and what it has written into its log.
func logging() (*Reconciler, *strings.Builder) {
	written := &strings.Builder{}
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(written, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: untimed})
	return New(Options{Events: events.NewFakeRecorder(room), Metrics: metrics.New(), Log: logr.FromSlogHandler(handler)}), written
}

func linesOf(written *strings.Builder) []string {
	text := strings.TrimSuffix(written.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestEachEventIsALineOfTheLog(t *testing.T) {
	t.Parallel()
	r, written := logging()
	kafka := smallKafka()

	r.events.authorityChanged(kafka, authorities.Cluster, authority.Transition{
		Kind: authority.ReplacementStarted, Certificate: pki.Fingerprint{1}, Why: "asked for",
	})
	r.events.podDisrupted(kafka, readyPod("my-dual-0"), &rollout.Act{
		Kind: rollout.Restart, Reasons: []rollout.Reason{{Code: rollout.ManualRollingUpdate, Note: "asked for"}},
	})

	lines := linesOf(written)
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for each event: %q", len(lines), lines)
	}
	for i, words := range [][]string{
		{"level=INFO", "msg=event", "kafka=kafka/my", "reason=CaKeyReplacementStarted", `about="Secret my-cluster-ca-cert"`, "asked for"},
		{"level=INFO", "msg=event", "kafka=kafka/my", "reason=ManualRollingUpdate", `about="Pod my-dual-0"`, "asked for"},
	} {
		for _, want := range words {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %q does not say %q", lines[i], want)
			}
		}
	}
}

func TestEachTransitionOfAConditionIsALineOfTheLog(t *testing.T) {
	t.Parallel()
	is := func(kind condition.Type, status condition.Status, reason, message string) condition.Condition {
		return condition.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	const since = "2026-01-01T00:00:00Z"
	aged := func(c condition.Condition) condition.Condition { c.LastTransitionTime = since; return c }
	ready, notReady := is(condition.Ready, condition.True, "", ""), is(condition.NotReady, condition.True, "Failed", "Kafka kafka/my: broken")
	trust := func(status condition.Status, reason, message string) condition.Condition {
		return is(conditionClusterCATrust, status, reason, message)
	}
	warned := func(reason, message string) condition.Condition {
		return is(condition.Warning, condition.True, reason, message)
	}
	for name, test := range map[string]struct {
		before, after []condition.Condition
		want          []string
	}{
		"nothing has changed but the time": {
			[]condition.Condition{aged(ready)}, []condition.Condition{ready}, nil,
		},
		"a rotation goes on": {
			[]condition.Condition{trust(condition.False, "Announcing", "a")},
			[]condition.Condition{trust(condition.False, "WaitingForTrust", "b")},
			[]string{"level=INFO msg=condition kafka=kafka/my type=ClusterCATrust status=False reason=WaitingForTrust message=b"},
		},
		"it waits for somebody else": {
			[]condition.Condition{trust(condition.False, "Announcing", "a")},
			[]condition.Condition{trust(condition.False, "Announcing", "b")},
			[]string{"level=INFO msg=condition kafka=kafka/my type=ClusterCATrust status=False reason=Announcing message=b"},
		},
		"a failure begins": {
			[]condition.Condition{ready},
			[]condition.Condition{notReady},
			[]string{
				`level=INFO msg=condition kafka=kafka/my type=NotReady status=True reason=Failed message="Kafka kafka/my: broken"`,
				`level=INFO msg="condition no longer holds" kafka=kafka/my type=Ready reason="" message=""`,
			},
		},
		"what follows from a failure is no line of its own": {
			[]condition.Condition{notReady, is("Reconciling", condition.True, "Failed", "")},
			[]condition.Condition{notReady, is("Stalled", condition.True, "Failed", "")},
			nil,
		},
		"one of two warnings ends": {
			[]condition.Condition{warned("A", "a"), warned("B", "b")},
			[]condition.Condition{warned("A", "a")},
			[]string{`level=INFO msg="condition no longer holds" kafka=kafka/my type=Warning reason=B message=b`},
		},
		"one of two warnings of a reason ends": {
			[]condition.Condition{warned("A", "Secret a: x"), warned("A", "Secret b: y")},
			[]condition.Condition{warned("A", "Secret a: x")},
			[]string{`level=INFO msg="condition no longer holds" kafka=kafka/my type=Warning reason=A message="Secret b: y"`},
		},
		"one of two warnings about no object ends": {
			[]condition.Condition{warned("A", "x"), warned("A", "y")},
			[]condition.Condition{warned("A", "x")},
			[]string{`level=INFO msg="condition no longer holds" kafka=kafka/my type=Warning reason=A message=y`},
		},
		"what was a warning keeps the cluster from being ready": {
			[]condition.Condition{warned("A", "x")},
			[]condition.Condition{is(condition.NotReady, condition.True, "A", "x")},
			[]string{
				`level=INFO msg=condition kafka=kafka/my type=NotReady status=True reason=A message=x`,
				`level=INFO msg="condition no longer holds" kafka=kafka/my type=Warning reason=A message=x`,
			},
		},
		"what kept the cluster from being ready is a warning now": {
			[]condition.Condition{is(condition.NotReady, condition.True, "A", "x")},
			[]condition.Condition{warned("A", "y")},
			[]string{
				`level=INFO msg=condition kafka=kafka/my type=Warning status=True reason=A message=y`,
				`level=INFO msg="condition no longer holds" kafka=kafka/my type=NotReady reason=A message=x`,
			},
		},
		"it ends while the other says something else": {
			[]condition.Condition{warned("A", "Secret a: x"), warned("A", "Secret b: y")},
			[]condition.Condition{warned("A", "Secret a: z")},
			[]string{
				`level=INFO msg=condition kafka=kafka/my type=Warning status=True reason=A message="Secret a: z"`,
				`level=INFO msg="condition no longer holds" kafka=kafka/my type=Warning reason=A message="Secret b: y"`,
			},
		},
		"a warning about no object says something else": {
			[]condition.Condition{warned("A", "pods a and b do not answer")},
			[]condition.Condition{warned("A", "pods a do not answer")},
			[]string{`level=INFO msg=condition kafka=kafka/my type=Warning status=True reason=A message="pods a do not answer"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, written := logging()
			p := clusterOf(smallKafka(), nil)
			p.kafka.Status.Conditions = test.before
			for _, c := range test.after {
				if name, _, found := strings.Cut(c.Message, ": "); found {
					p.about(object{name: name}, c.Reason, c.Message)
				}
			}

			r.announce(p.observation, test.after)

			if diff := cmp.Diff(test.want, linesOf(written)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
