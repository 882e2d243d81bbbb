package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
)

func TestTheWarningAboutTheClockKeepsItsWordsWhileTheyAreAboutRight(t *testing.T) {
	t.Parallel()
	const day, ahead = 24 * time.Hour, "the operator's clock is 24h0m0s ahead of the API server's: "
	for name, test := range map[string]struct {
		now  time.Duration
		want string
	}{
		"it is measured a little differently": {day + 20*time.Second, ahead},
		"it drifts by some minutes":           {day - 40*time.Minute, ahead},
		"it is set, and half as much ahead":   {day / 2, "the operator's clock is 12h0m0s ahead of the API server's: "},
		"it is set too far back":              {-2 * time.Hour, "the operator's clock is 2h0m0s behind the API server's: "},
		"it is as far behind":                 {-day, "the operator's clock is 24h0m0s behind the API server's: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := passOf(smallKafka(), nil)
			p.ahead = day
			p.kafka.Status.Conditions = p.conditions([]wanted{p.clockWarning()})
			p.ahead = test.now
			if said := p.clockWarning().message; !strings.HasPrefix(said, test.want) {
				t.Errorf("it says %q, want %q", said, test.want)
			}
			p.kafka.Status.Conditions = p.conditions([]wanted{p.clockWarning()})
			p.ahead += 10 * time.Second
			if said := p.clockWarning().message; !strings.HasPrefix(said, test.want) {
				t.Errorf("then it says %q, want %q", said, test.want)
			}
		})
	}
}

func TestOfAWarningThatCannotBeReadNothingIsKept(t *testing.T) {
	t.Parallel()
	p := passOf(smallKafka(), nil)
	p.ahead = time.Hour
	p.kafka.Status.Conditions = p.conditions([]wanted{holds(condition.Warning, reasonClock, "the clock is wrong")})
	if said := p.clockWarning().message; !strings.Contains(said, "1h0m0s ahead of") {
		t.Errorf("it says %q", said)
	}
}

func TestWhileTheClockIsWrongAKafkaIsSaidToBePausedOnlyIfItIs(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"it is": {"strimzi.io/pause-reconciliation": "true"}, "it was, and goes on": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafka := smallKafka()
			kafka.Annotations = annotations
			kafka.Status.Conditions = []condition.Condition{{Type: condition.ReconciliationPaused, Status: condition.True, Reason: reasonPaused}}
			p := passOf(kafka, nil)
			p.ahead = 24 * time.Hour
			said := slices.ContainsFunc(p.stillSaid(), func(w wanted) bool { return w.kind == condition.ReconciliationPaused })
			if want := annotations != nil; said != want {
				t.Errorf("it is said to be paused: %t, want %t", said, want)
			}
		})
	}
}
