package controller

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
)

const readyMetric = "keyturn_ready"

// isTold compares the series that say whether Kafkas are ready, all of them.
func isTold(t *testing.T, m *metrics.Metrics, series ...string) {
	t.Helper()
	want := "# HELP keyturn_ready 1 for a Kafka that is Ready, 0 for one that is not, with the reason.\n# TYPE keyturn_ready gauge\n" +
		strings.Join(series, "\n") + "\n"
	if len(series) == 0 {
		want = ""
	}
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), readyMetric); err != nil {
		t.Error(err)
	}
}

func TestOneSeriesSaysWhetherAKafkaIsReadyAndWhyNot(t *testing.T) {
	t.Parallel()
	is := func(kind condition.Type, reason string) condition.Condition {
		return condition.Condition{Type: kind, Status: condition.True, Reason: reason}
	}
	warned := is(condition.Warning, reasonSilent)
	for name, test := range map[string]struct {
		conditions []condition.Condition
		want       string
	}{
		"it is ready":            {[]condition.Condition{warned, is(condition.Ready, "")}, `{cluster="my",namespace="kafka",reason=""} 1`},
		"it is not":              {[]condition.Condition{warned, is(condition.NotReady, reasonFailed)}, `{cluster="my",namespace="kafka",reason="ReconciliationFailed"} 0`},
		"it is paused":           {[]condition.Condition{is(condition.ReconciliationPaused, reasonPaused)}, `{cluster="my",namespace="kafka",reason="ReconciliationPaused"} 0`},
		"nobody has said so yet": {[]condition.Condition{warned}, `{cluster="my",namespace="kafka",reason="Unknown"} 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := logging()
			c := clusterOf(smallKafka(), nil)
			r.metrics.Told(nameOfKafka(c), []condition.Condition{is(condition.NotReady, reasonCreating)})
			c.kafka.Status.Conditions = test.conditions

			if err := r.writeStatus(t.Context(), c.observation, c.kafka.Status); err != nil {
				t.Fatal(err)
			}
			isTold(t, r.metrics, readyMetric+test.want)

			r.leave(nameOfKafka(c))
			isTold(t, r.metrics)
		})
	}
}

func nameOfKafka(c *applied) types.NamespacedName {
	return types.NamespacedName{Namespace: c.kafka.Namespace, Name: c.kafka.Name}
}

func TestWhatTheOperatorBeforeHasToldCountsUntilThisOneTellsSomething(t *testing.T) {
	t.Parallel()
	m, kafka := metrics.New(), types.NamespacedName{Namespace: "kafka", Name: "my"}
	ready := []condition.Condition{{Type: condition.Ready, Status: condition.True}}
	failed := []condition.Condition{{Type: condition.NotReady, Status: condition.True, Reason: reasonFailed}}

	m.Recall(kafka, failed)
	isTold(t, m, readyMetric+`{cluster="my",namespace="kafka",reason="ReconciliationFailed"} 0`)

	m.Told(kafka, ready)
	m.Recall(kafka, failed)
	isTold(t, m, readyMetric+`{cluster="my",namespace="kafka",reason=""} 1`)
}
