package apitest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

func TestAWatchThatIsDeniedIsAWarningOfEachTopic(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"kafkatopics", "kafkas"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			passing := clocktesting.NewFakeClock(time.Now())
			limited := chartstest.Limit(t, w.person, apiServer, filepath.Join("..", "..", ".."), chartstest.TopicOperator, "limited-"+w.namespace)
			limited.Allow("")
			w.rights, w.observer = limited.Config, watches.NewObserver(passing)
			w.run(w.kafka, cluster)
			pass := func(what string, holds func() bool) {
				t.Helper()
				w.until(what, func() bool {
					limited.Pass(passing)
					return holds()
				})
			}
			warns := func() bool {
				return slices.ContainsFunc(w.read("orders").Status.Conditions, func(c condition.Condition) bool {
					return c.Type == condition.Warning && c.Reason == "WatchDenied" && strings.Contains(c.Message, "list and watch on "+resource)
				})
			}
			w.topic("orders", sized(1, 1))
			pass("the topic is ready", func() bool { return w.has("orders", condition.Ready, "") })
			pass("it is watched", func() bool { return limited.Watches(resource) })
			limited.Allow(resource, "list", "watch")
			pass("the topic warns of it", warns)
			limited.Allow("")
			pass("the warning is gone", func() bool { return !warns() })
			w.reports("orders", "")
		})
	}
}
