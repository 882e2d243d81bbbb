package kube_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/kube"
)

// answering makes the clock read one answer that carries the date.
func answering(t *testing.T, c *kube.ServerClock, date string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = []string{date}
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Transport(http.DefaultTransport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheServersClockIsReadFromItsAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		date string
		want time.Duration
	}{
		"it agrees":                         {now.Format(http.TimeFormat), 0},
		"the local one is ahead":            {now.Add(-24 * time.Hour).Format(http.TimeFormat), 24 * time.Hour},
		"the local one is behind":           {now.Add(time.Hour).Format(http.TimeFormat), -time.Hour},
		"an answer without a date":          {"", 0},
		"an answer with another kind of it": {"yesterday", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := clocktesting.NewFakePassiveClock(now)
			clock := kube.NewServerClock(local)
			answering(t, clock, c.date)
			local.SetTime(now.Add(time.Minute)) // both go on
			if got := clock.Ahead(); got != c.want {
				t.Errorf("ahead by %s, want %s", got, c.want)
			}
		})
	}
}

func TestBeforeTheFirstAnswerNothingIsSaidOfTheServersClock(t *testing.T) {
	t.Parallel()
	if got := kube.NewServerClock(clocktesting.NewFakePassiveClock(time.Now())).Ahead(); got != 0 {
		t.Errorf("ahead by %s, want 0", got)
	}
}

// stepped is a clock that somebody sets while no time passes.
type stepped struct{ now time.Time }

func (s *stepped) Now() time.Time                { return s.now }
func (s *stepped) Since(time.Time) time.Duration { return 0 }

func TestAClockThatIsSetIsNoticedBeforeTheNextAnswer(t *testing.T) {
	t.Parallel()
	local := &stepped{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	clock := kube.NewServerClock(local)
	answering(t, clock, local.now.Format(http.TimeFormat))
	local.now = local.now.Add(24 * time.Hour)
	if got := clock.Ahead(); got != 24*time.Hour {
		t.Errorf("ahead by %s, want the day that the clock was set by", got)
	}
}
