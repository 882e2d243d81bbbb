package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// blackHole lets the time of a question pass.
func blackHole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// tooLate is just before a question's time has passed.
const tooLate = agentTimeout - time.Millisecond

// answersAfter lets that much time pass before it answers.
func answersAfter(wait time.Duration) func(context.Context) error {
	return failsAfter(wait, nil)
}

func failsAfter(wait time.Duration, failure error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(wait):
			return failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// late is what a question fails with whose time has passed, without letting it pass.
func late(context.Context) error { return context.DeadlineExceeded }

func prompt(context.Context) error { return nil }

func putTo(whom string, count int, ask func(context.Context) error) []question {
	questions := make([]question, 0, count)
	for i := range count {
		questions = append(questions, question{of: fmt.Sprintf("%s-%d", whom, i), ask: ask})
	}
	return questions
}

// became counts the questions by what became of them.
func became(fates fates) map[fate]int {
	count := map[fate]int{}
	for _, f := range fates {
		count[f]++
	}
	return count
}

// onePass is a pass that asks that and nothing else.
func (a *asker) onePass(ctx context.Context, kafka types.UID, of reach, questions []question) fates {
	v := a.visit(kafka)
	defer v.leave()
	return v.put(ctx, of, questions)
}

// silentBefore lets the asker know them as silent for long.
func silentBefore(a *asker, kafka types.UID, questions []question) {
	if a.standings[kafka] == nil {
		a.standings[kafka] = map[string]standing{}
	}
	long := time.Unix(0, 0)
	for _, q := range questions {
		a.standings[kafka][q.of] = standing{
			life: q.life, failure: context.DeadlineExceeded, slowSince: long, silentSince: long, heardOut: true,
		}
	}
}

func TestManyWhoAreSilentAreWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := newAsker(clock.RealClock{}, 4), time.Now()
		questions := putTo("silent", 40, blackHole)
		silentBefore(a, "k", questions)

		got := became(a.onePass(t.Context(), "k", worthwhile, questions))

		if took := time.Since(began); took != agentTimeout || got[silent] != 40 {
			t.Errorf("40 questions became %v after %s, want 40 silences after %s", got, took, agentTimeout)
		}
	})
}

func TestWhoAnsweredLastTimeIsNotKeptWaitingByTheSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(clock.RealClock{}, 4)
		a.onePass(t.Context(), "k", worthwhile, putTo("prompt", 20, prompt))
		began, answers := time.Now(), make(chan time.Duration, 20)
		questions := append(putTo("silent", 300, blackHole), putTo("prompt", 20, func(context.Context) error {
			answers <- time.Since(began)
			return nil
		})...)
		silentBefore(a, "k", questions[:300])
		ctx, cancel := context.WithTimeout(t.Context(), askingTime)
		defer cancel()

		got := became(a.onePass(ctx, "k", worthwhile, questions))

		if took := time.Since(began); took != 6*time.Second || got[answered] != 20 {
			t.Errorf("the questions became %v after %s, want 20 answers and an end after %s", got, took, askingTime)
		}
		for range 20 {
			if took := <-answers; took != 0 {
				t.Errorf("somebody who answers at once was asked after %s", took)
			}
		}
	})
}

// Somebody who may answer what he likes answers rubbish, just before he is given up.
func TestWhoFailsLateIsTreatedLikeTheSilent(t *testing.T) {
	t.Parallel()
	rubbish := errors.New("rubbish")
	for name, c := range map[string]struct {
		after time.Duration
		says  error
		want  fate
	}{
		"a refusal at once":       {0, rubbish, answered},
		"a refusal after a while": {499 * time.Millisecond, rubbish, answered},
		"a late one":              {500 * time.Millisecond, rubbish, silent},
		"one at the last moment":  {tooLate, rubbish, silent},
		"a late answer":           {tooLate, nil, answered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAsker(clock.RealClock{}, 4)
				questions := putTo("late", 1, failsAfter(c.after, c.says))
				a.onePass(t.Context(), "k", worthwhile, putTo("late", 1, prompt))
				if got := a.onePass(t.Context(), "k", worthwhile, questions)[0]; got != c.want {
					t.Errorf("it became %d, want %d", got, c.want)
				}
				again := presumed
				if c.want == answered {
					again = answered
				}
				if got := a.onePass(t.Context(), "k", worthwhile, questions)[0]; got != again {
					t.Errorf("asked again at once it became %d, want %d", got, again)
				}
			})
		})
	}
}

func TestASilentProcessIsAskedLessAndLessOften(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(noon())
	a := newAsker(now, 4)
	var asked []time.Duration
	for second := range 300 {
		now.SetTime(noon().Add(time.Duration(second) * time.Second))
		if a.onePass(t.Context(), "k", worthwhile, putTo("silent", 1, late))[0] == silent {
			asked = append(asked, time.Duration(second))
		}
	}
	if want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 62, 92}; !slices.Equal(asked[:9], want) {
		t.Errorf("it was asked in seconds %d, want %d", asked, want)
	}
}

func TestPresumedSilenceIsToldFromSilence(t *testing.T) {
	t.Parallel()
	a := newAsker(clocktesting.NewFakePassiveClock(noon()), 4)
	silently := question{of: "a", life: "1", ask: late}
	a.onePass(t.Context(), "k", worthwhile, []question{silently})
	restarted := silently
	restarted.life = "2"
	for name, c := range map[string]struct {
		question question
		reach    reach
		want     fate
	}{
		"a moment later":                    {silently, worthwhile, presumed},
		"before something is done":          {silently, everybody, silent},
		"after its pod has changed":         {restarted, worthwhile, silent},
		"to somebody who was never asked":   {question{of: "b", ask: late}, worthwhile, silent},
		"to somebody beside it who answers": {question{of: "c", ask: prompt}, worthwhile, answered},
	} {
		if got := a.onePass(t.Context(), "k", c.reach, []question{c.question})[0]; got != c.want {
			t.Errorf("%s the question became %d, want %d", name, got, c.want)
		}
		a.onePass(t.Context(), "k", everybody, []question{silently})
	}
}

func TestWhoRefusesAtOnceIsAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	a, asked := newAsker(clocktesting.NewFakePassiveClock(noon()), 4), 0
	refuses := question{of: "a", ask: func(context.Context) error {
		asked++
		return errors.New("the certificate is not accepted")
	}}
	for range 3 {
		a.onePass(t.Context(), "k", worthwhile, []question{refuses})
	}
	if asked != 3 {
		t.Errorf("it was asked %d times in three passes", asked)
	}
}

func TestClustersThatAreNotPromptLeaveHalfOfThePassesToOthers(t *testing.T) {
	t.Parallel()
	for name, whom := range map[string]func(context.Context) error{
		"that do not answer":   blackHole,
		"that answer too late": answersAfter(tooLate),
		"that are hardly late": answersAfter(promptly + time.Millisecond),
	} {
		for _, of := range []reach{worthwhile, everybody} {
			synctest.Test(t, func(t *testing.T) {
				a, began := newAsker(clock.RealClock{}, 4), time.Now()
				var waiting sync.WaitGroup
				for i := range 4 {
					waiting.Go(func() { a.onePass(t.Context(), types.UID(fmt.Sprint(i)), of, putTo("costly", 1, whom)) })
				}
				<-time.After(promptly)
				synctest.Wait()
				if got := len(a.questions); got != 2 {
					t.Errorf("%d of 4 passes wait for clusters %s, want 2", got, name)
				}
				if got := a.onePass(t.Context(), "lively", of, putTo("prompt", 3, prompt)); became(got)[answered] != 3 || time.Since(began) != promptly {
					t.Errorf("beside clusters %s questions to those who answer became %v", name, became(got))
				}
				waiting.Wait()
				if got := a.places.taken; got != 0 {
					t.Errorf("%d passes still have a place to wait", got)
				}
			})
		}
	}
}

func TestWhoHasToBeAskedIsAskedInTheEndBesideOthersThatAreSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		besideHoles(t, 50, blackHole, 1, func(m *manyHoles) {
			questions, began := putTo("silent", 1, blackHole), time.Now()
			silentBefore(m.asker, "acts", questions)
			for m.asker.onePass(t.Context(), "acts", everybody, questions).spared() {
				<-time.After(m.asker.wait("acts"))
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("beside 50 clusters that are cut off it was asked after %s", took)
			}
		})
	})
}

// slow is connected to agents that answer every question after more than a second.
type slow struct{ deaf }

func (s slow) Agents(Access) Agents { return s }

func (slow) TLS(ctx context.Context, _ agentclient.Node) (publication.Report, error) {
	select {
	case <-time.After(1200 * time.Millisecond):
		return publication.Report{Revision: 7}, nil
	case <-ctx.Done():
		return publication.Report{}, ctx.Err()
	}
}

func TestASlowAgentIsNotCalledSilentBeforeItWasGivenTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Connector: slow{}, Clock: clock.RealClock{}, Metrics: NewMetrics(), Passes: 4})
		r.asking.places.take("another", recent, time.Now())
		r.asking.places.take("a third one", recent, time.Now())
		for _, pause := range []time.Duration{0, 100 * time.Millisecond, shortestPause, longestPause} {
			<-time.After(pause)
			p := fortyPods()
			r.interview(t.Context(), p, worthwhile)
			if len(p.silent) > 0 {
				t.Errorf("%s later %d agents are called silent that answer when they are waited for", pause, len(p.silent))
			}
			p.leave()
		}
	})
}

// withoutPlaces is for passes that find no place.
func withoutPlaces() *asker {
	a := newAsker(clock.RealClock{}, 1)
	a.places.taken = a.places.room
	return a
}

func TestWithoutAPlaceAPassWaitsForPromptAnswersOnly(t *testing.T) {
	t.Parallel()
	const most = 50 * time.Millisecond
	for _, takes := range []time.Duration{0, most - 1, most + 1, time.Second, tooLate} {
		for _, of := range []reach{worthwhile, everybody} {
			synctest.Test(t, func(t *testing.T) {
				a, began, want := withoutPlaces(), time.Now(), answered
				if takes > most {
					want = unasked
				}
				questions := putTo("a", 1, answersAfter(takes))
				if got := a.onePass(t.Context(), "k", of, questions)[0]; got != want || time.Since(began) != min(takes, most) {
					t.Errorf("a question that takes %s became %d after %s, want %d", takes, got, time.Since(began), want)
				}
				a.places.leave()
				began = time.Now()
				if got := a.onePass(t.Context(), "k", everybody, questions)[0]; got != answered || time.Since(began) != takes {
					t.Errorf("when there is a place a question that takes %s became %d after %s", takes, got, time.Since(began))
				}
			})
		}
	}
}

func TestAPassTakesNoLongerWithoutAPlaceHoweverOftenItAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := withoutPlaces(), time.Now()
		v := a.visit("k")
		for i := range 5 {
			v.put(t.Context(), worthwhile, putTo(fmt.Sprint("process-", i), 1, answersAfter(20*time.Millisecond)))
		}
		if took := time.Since(began); took != promptly || v.waited != promptly {
			t.Errorf("it took %s and tells %s, want %s", took, v.waited, promptly)
		}
	})
}

func TestWhatSomebodyIsToldToDoIsGivenUpWithoutAPlaceUnlessItIsDonePromptly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, told := withoutPlaces(), 0
		act := putTo("brokers", 1, func(ctx context.Context) error {
			told++
			return answersAfter(time.Second)(ctx)
		})
		for range 2 {
			if got := a.onePass(t.Context(), "k", acting, act)[0]; got != unasked || told != 1 {
				t.Errorf("without a place it became %d, and somebody was told %d times", got, told)
			}
		}
		a.places.leave()
		if got := a.onePass(t.Context(), "k", acting, act)[0]; got != answered || told != 2 {
			t.Errorf("with a place it became %d, and somebody was told %d times", got, told)
		}
	})
}

func TestWhoCannotActWithoutAPlaceWaitsForOne(t *testing.T) {
	t.Parallel()
	a := withoutPlaces()
	a.onePass(t.Context(), "k", acting, putTo("brokers", 1, blackHole))
	if _, waits := a.places.waiting["k"]; !waits {
		t.Error("its turn never comes")
	}
}

func TestAClusterWaitsForAPlaceForThoseWhoAreNotEvenAskedWithoutOne(t *testing.T) {
	t.Parallel()
	a, now := withoutPlaces(), time.Now()
	silent := standing{failure: context.DeadlineExceeded, slowSince: now.Add(-time.Minute), silentSince: now.Add(-time.Minute), tried: now, asked: now, heardOut: true}
	a.standings["k"] = map[string]standing{"a-0": silent}
	if got := a.onePass(t.Context(), "k", everybody, putTo("a", 1, prompt))[0]; got != presumed {
		t.Errorf("a silence of which nobody is asked yet became %d", got)
	}
	if _, waits := a.places.waiting["k"]; !waits {
		t.Error("its turn never comes")
	}
}

// What ends a hurry may come late.
func TestAVisitThatHasEndedTakesNoPlace(t *testing.T) {
	t.Parallel()
	a := newAsker(clock.RealClock{}, 1)
	v := a.visit("k")
	v.leave()
	if v.stay() || a.places.taken != 0 {
		t.Errorf("%d places are taken, and nobody leaves them", a.places.taken)
	}
}

func TestAProcessStandsAsItAnsweredLast(t *testing.T) {
	t.Parallel()
	const second = time.Second
	moment := func(seconds int) time.Time { return noon().Add(time.Duration(seconds) * second) }
	failure := errors.New("nothing came")
	// What it did in the seconds 1, 2 and so on.
	for name, c := range map[string]struct {
		did  []func(standing, time.Time) standing
		want standing
	}{
		"prompt":                        {did: []func(standing, time.Time) standing{inTime}, want: standing{asked: moment(1)}},
		"late":                          {did: []func(standing, time.Time) standing{inTime, tardy, tardy}, want: standing{slowSince: moment(2), asked: moment(3)}},
		"late, and prompt again":        {did: []func(standing, time.Time) standing{tardy, inTime}, want: standing{asked: moment(2)}},
		"cut short":                     {did: []func(standing, time.Time) standing{inTime, hurried, hurried}, want: standing{failure: failure, slowSince: moment(2), silentSince: moment(2), asked: moment(1)}},
		"silent":                        {did: []func(standing, time.Time) standing{inTime, silently, silently}, want: standing{failure: failure, slowSince: moment(2), silentSince: moment(2), asked: moment(3), heardOut: true}},
		"silent, and cut short":         {did: []func(standing, time.Time) standing{silently, hurried}, want: standing{failure: failure, slowSince: moment(1), silentSince: moment(1), asked: moment(1), heardOut: true}},
		"late between silences":         {did: []func(standing, time.Time) standing{silently, tardy, hurried}, want: standing{failure: failure, slowSince: moment(1), silentSince: moment(3), asked: moment(2)}},
		"silent, late in the end":       {did: []func(standing, time.Time) standing{silently, tardy}, want: standing{slowSince: moment(1), asked: moment(2)}},
		"silent, and prompt in the end": {did: []func(standing, time.Time) standing{silently, inTime}, want: standing{asked: moment(2)}},
	} {
		now := clocktesting.NewFakePassiveClock(noon())
		a, q := newAsker(now, 1), question{of: "a", life: "1"}
		c.want.life, c.want.tried = q.life, moment(len(c.did))
		for i, did := range c.did {
			now.SetTime(moment(i + 1))
			a.note("k", q, did)
		}
		got := a.standings["k"]["a"]
		if got.failure != nil {
			got.failure = failure
		}
		if got != c.want {
			t.Errorf("%s: it stands like %+v, want %+v", name, got, c.want)
		}
		if slow := !c.want.slowSince.IsZero(); got.slow() != slow {
			t.Errorf("%s: it is slow: %t, want %t", name, got.slow(), slow)
		}
	}
}

func inTime(s standing, now time.Time) standing { return s.answered(promptly-1, now) }

func tardy(s standing, now time.Time) standing { return s.answered(promptly, now) }

func hurried(s standing, now time.Time) standing { return s.fell(context.Canceled, now) }

func silently(s standing, now time.Time) standing { return s.silent(context.DeadlineExceeded, now) }

func TestWhatWasBeforeAnotherLifeOrALaterTimeDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		life  string
		after time.Duration
		since time.Duration
	}{
		"the same life":             {"1", time.Second, 0},
		"the same moment":           {"1", 0, 0},
		"another life":              {"2", time.Second, time.Second},
		"a clock that was set back": {"1", -time.Second, -time.Second},
	} {
		now := clocktesting.NewFakePassiveClock(noon())
		a, heardOut := newAsker(now, 1), c.since == 0
		a.note("k", question{of: "a", life: "1"}, silently)
		now.SetTime(noon().Add(c.after))
		q := question{of: "a", life: c.life}
		a.note("k", q, hurried)
		if s, want := a.standings["k"]["a"], noon().Add(c.since); s.slowSince != want || s.silentSince != want || s.heardOut != heardOut {
			t.Errorf("%s: it stands like %+v, want that it is slow since %s", name, s, want)
		}
		if got := a.presumption("k", q); (got == presumed) != heardOut {
			t.Errorf("%s: its silence became %d", name, got)
		}
		if got := a.presumption("k", question{of: "a", life: "3"}); got != unasked {
			t.Errorf("%s: the silence of yet another life became %d", name, got)
		}
	}
}

func TestWhoIsAskedNext(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return noon().Add(time.Duration(n) * time.Second) }
	silence := func(since, asked, tried int) standing {
		return standing{failure: context.DeadlineExceeded, slowSince: second(since), silentSince: second(since), asked: second(asked), tried: second(tried)}
	}
	standings := map[string]standing{
		"prompt":                     {asked: second(0), tried: second(0)},
		"late":                       {slowSince: second(-9), asked: second(0), tried: second(0)},
		"silent a moment ago":        silence(0, 0, 0),
		"silent a second ago":        silence(-1, -1, -1),
		"waited for, not due":        silence(-10, -4, -4),
		"waited for, due":            silence(-10, -5, -5),
		"not waited for, not due":    silence(-10, -20, -4),
		"not waited for, due":        silence(-10, -20, -5),
		"cut off, not due":           silence(-600, -29, -29),
		"cut off, due":               silence(-600, -30, -30),
		"by a clock that was ahead":  silence(5, 9, 9),
		"of another life":            {life: "0", slowSince: second(-9)},
		"silent, never waited for":   {failure: context.Canceled, slowSince: second(-8), silentSince: second(-8), tried: second(-4)},
		"silent, never waited for 2": {failure: context.Canceled, slowSince: second(-8), silentSince: second(-8), tried: second(-3)},
	}
	var questions []question
	for _, of := range slices.Sorted(maps.Keys(standings)) {
		questions = append(questions, question{of: of})
	}
	questions = append(questions, question{of: "unknown"})
	a := newAsker(clocktesting.NewFakePassiveClock(noon()), 1)
	a.standings["k"] = standings
	names := func(indexes []int) (names []string) {
		for _, i := range indexes {
			names = append(names, questions[i].of)
		}
		return names
	}
	someSlow := []string{
		"silent, never waited for", "silent, never waited for 2", "cut off, due", "not waited for, due", "not waited for, not due",
		"waited for, due", "silent a second ago", "late", "by a clock that was ahead",
	}
	hasty := []string{"by a clock that was ahead", "cut off, due", "late", "not waited for, due", "silent a second ago", "silent, never waited for", "waited for, due"}
	for name, c := range map[string]struct {
		of   reach
		slow []string
	}{
		"worthwhile": {worthwhile, someSlow},
		"everybody": {everybody, []string{
			"silent, never waited for", "silent, never waited for 2", "cut off, due", "cut off, not due", "not waited for, due", "not waited for, not due",
			"waited for, due", "waited for, not due", "silent a second ago", "late", "silent a moment ago", "by a clock that was ahead",
		}},
	} {
		got := a.turns("k", c.of, questions)
		if prompt := names(got.prompt); !slices.Equal(prompt, []string{"of another life", "prompt", "unknown"}) {
			t.Errorf("%s: asked anyway are %q", name, prompt)
		}
		if slow := names(got.slow); !slices.Equal(slow, c.slow) {
			t.Errorf("%s: waited for are %q, want %q", name, slow, c.slow)
		}
		if got := names(got.hasty); !slices.Equal(got, hasty) {
			t.Errorf("%s: asked without a place are %q, want %q", name, got, hasty)
		}
	}
}

func TestAClusterIsLookedAtWhenSomebodyIsAskedNextOrMayHaveAPlace(t *testing.T) {
	t.Parallel()
	ago := func(seconds int) standing {
		past := noon().Add(-time.Duration(seconds) * time.Second)
		return standing{failure: context.DeadlineExceeded, slowSince: past, silentSince: past.Add(-10 * time.Second), tried: past}
	}
	in := func(seconds int) *ticket { return &ticket{back: noon().Add(time.Duration(seconds) * time.Second)} }
	for name, c := range map[string]struct {
		standings map[string]standing
		ticket    *ticket
		want      time.Duration
	}{
		"nobody is known":                 {nil, nil, 0},
		"nobody is silent":                {map[string]standing{"a": {slowSince: noon()}}, in(5), 0},
		"one is silent":                   {map[string]standing{"a": ago(3), "b": {}}, nil, 7 * time.Second},
		"two are":                         {map[string]standing{"a": ago(3), "b": ago(6)}, nil, 4 * time.Second},
		"one is due":                      {map[string]standing{"a": ago(11)}, nil, time.Second},
		"a place is expected before that": {map[string]standing{"a": ago(3)}, in(5), 5 * time.Second},
		"a place is expected after that":  {map[string]standing{"a": ago(3)}, in(8), 7 * time.Second},
		"a place was expected":            {map[string]standing{"a": ago(3)}, in(-8), time.Second},
	} {
		a := newAsker(clocktesting.NewFakePassiveClock(noon()), 1)
		a.standings["k"] = c.standings
		if c.ticket != nil {
			a.places.waiting["k"] = *c.ticket
		}
		if got := a.wait("k"); got != c.want {
			t.Errorf("%s: it is looked at after %s, want %s", name, got, c.want)
		}
	}
}

func TestAClusterThatNeedsNoPlaceAnyMoreDoesNotWaitForOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := withoutPlaces()
		takes := time.Second
		slow := putTo("a", 1, func(ctx context.Context) error { return answersAfter(takes)(ctx) })
		for _, waits := range []bool{true, true, false} {
			if !waits {
				takes = 0
			}
			a.onePass(t.Context(), "k", worthwhile, putTo("b", 1, answersAfter(takes)))
			a.onePass(t.Context(), "k", worthwhile, slow)
			<-time.After(longestPause)
			if _, got := a.places.waiting["k"]; got != waits {
				t.Errorf("it waits for a place: %t, want %t", got, waits)
			}
		}
	})
}

// A process that is slow for a while is one of a machine that is busy.
func TestWhoIsSlowForAWhileIsHeardAgainSoonThoughThereIsNeverAPlace(t *testing.T) {
	t.Parallel()
	for _, slowFor := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a, began := withoutPlaces(), time.Now()
			busy := putTo("busy", 1, func(ctx context.Context) error {
				if time.Since(began) < slowFor {
					return answersAfter(1200 * time.Millisecond)(ctx)
				}
				return nil
			})
			for a.onePass(t.Context(), "k", worthwhile, busy)[0] != answered {
				<-time.After(max(lookAgain, a.wait("k")))
			}
			if took, want := time.Since(began), slowFor+min(slowFor, longestPause)+shortestPause; took > want {
				t.Errorf("after it was slow for %s it is heard after %s, want within %s", slowFor, took, want)
			}
		})
	}
}

func TestAPassKeepsItsPlaceUntilItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(clock.RealClock{}, 1)
		slow := putTo("slow", 1, answersAfter(time.Second))
		v := a.visit("k")
		for range 3 {
			if got := v.put(t.Context(), worthwhile, slow)[0]; got != answered {
				t.Errorf("the question became %d, want that it is waited for", got)
			}
			if got := a.onePass(t.Context(), "other", worthwhile, slow)[0]; got != unasked {
				t.Errorf("meanwhile the only place is somebody else's: his question became %d", got)
			}
		}
		v.leave()
		if v.stay(); a.places.taken != 0 {
			t.Error("it takes a place after its end")
		}
	})
}

func TestQuestionsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(clock.RealClock{}, 100)
		var all, most, mostOfOne atomic.Int32
		highest := func(of *atomic.Int32, now int32) {
			for before := of.Load(); now > before && !of.CompareAndSwap(before, now); before = of.Load() {
			}
		}
		var passes sync.WaitGroup
		for i := range 20 {
			passes.Go(func() {
				var own atomic.Int32
				questions := putTo("silent", 100, func(ctx context.Context) error {
					highest(&most, all.Add(1))
					highest(&mostOfOne, own.Add(1))
					defer all.Add(-1)
					defer own.Add(-1)
					return blackHole(ctx)
				})
				a.onePass(t.Context(), types.UID(fmt.Sprint(i)), everybody, questions)
			})
		}
		passes.Wait()
		if most.Load() != 512 || mostOfOne.Load() != 64 {
			t.Errorf("%d questions were under way at once, %d in one cluster; want 512, and 64",
				most.Load(), mostOfOne.Load())
		}
	})
}

func TestBeforeSomethingIsDoneThereIsTimeForAsManyAsAreAsked(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]time.Duration{1: 6 * time.Second, 64: 6 * time.Second, 65: 12 * time.Second, 200: 24 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r, began := New(Options{Clock: clock.RealClock{}, Metrics: NewMetrics()}), time.Now()
			p := passOf(&kafkav1.Kafka{}, nil)
			p.visit = r.asking.visit(p.kafka.UID)
			p.visit.waited = askingTime
			r.put(t.Context(), p, everybody, putTo("endless", count, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
			if took := time.Since(began); took != want {
				t.Errorf("%d questions have %s, want %s", count, took, want)
			}
			if took, want := p.waited(), askingTime+want; took != want {
				t.Errorf("the pass tells that it has waited for %s, want %s", took, want)
			}
		})
	}
}

func TestAPassHasOneDeadlineForAllItsQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, began := New(Options{Clock: clock.RealClock{}, Metrics: NewMetrics()}), time.Now()
		p := passOf(&kafkav1.Kafka{}, nil)
		endless := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

		agents := putTo("agent", 3, blackHole)
		kafkas := putTo("kafka", 3, endless)
		silentBefore(r.asking, p.kafka.UID, append(agents, kafkas...))

		first := r.put(t.Context(), p, worthwhile, agents)
		second := r.put(t.Context(), p, worthwhile, kafkas)
		third := r.put(t.Context(), p, worthwhile, putTo("later", 3, prompt))

		if took := time.Since(began); took != askingTime || p.waited() != askingTime {
			t.Errorf("the pass has asked for %s and tells %s, want %s", took, p.waited(), askingTime)
		}
		if became(first)[silent] != 3 || became(second)[presumed] != 3 || became(third)[unasked] != 3 || !p.became.spared() {
			t.Errorf("the questions became %v, %v and %v", became(first), became(second), became(third))
		}
	})
}

// deaf connects to agents and servers of which nobody answers but the agent that talks.
type deaf struct {
	admin.Client

	talks string
}

func (d deaf) Agents(Access) Agents { return d }

func (d deaf) Admin(Access) (admin.Client, error) { return d, nil }

func (d deaf) Close() {}

func (d deaf) TLS(ctx context.Context, node agentclient.Node) (publication.Report, error) {
	if node.Address == d.talks {
		return publication.Report{Revision: 7}, nil
	}
	return publication.Report{}, blackHole(ctx)
}

func (d deaf) BrokerState(ctx context.Context, node agentclient.Node) (contract.BrokerState, error) {
	if node.Address == d.talks {
		return contract.BrokerState{State: contract.StateRecovery}, nil
	}
	return contract.BrokerState{}, blackHole(ctx)
}

func (d deaf) Quorum(ctx context.Context) (admin.Quorum, error) {
	return admin.Quorum{}, blackHole(ctx)
}

func (d deaf) Partitions(ctx context.Context) ([]admin.Partition, error) {
	return nil, blackHole(ctx)
}

// fortyPods is a pass over a cluster of as many nodes.
func fortyPods() *pass {
	p := passOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{})
	p.cluster.Nodes = nil
	p.clusterCA.Snapshot.Anchors = []trust.Anchor{{ID: "a"}}
	for i := range 40 {
		pod := readyPod(fmt.Sprintf("pod-%d", i))
		pod.UID, pod.Status.PodIP = types.UID(pod.Name), fmt.Sprintf("192.0.2.%d", i)
		p.pods[pod.Name] = pod
		p.cluster.Nodes = append(p.cluster.Nodes, model.Node{ID: model.NodeID(i), Pod: pod.Name})
	}
	return p
}

func TestEverythingThatARestartIsDecidedFromIsAskedForAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Connector: deaf{talks: "192.0.2.7:8443"}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
		var said interview
		for _, of := range []reach{worthwhile, everybody} {
			p, began := fortyPods(), time.Now()
			said = r.interview(t.Context(), p, of)
			p.leave()
			if took := time.Since(began); took != agentTimeout || said.became.spared() || len(p.silent) != 39 {
				t.Errorf("40 agents of which one answers were asked for %s, want %s; %d are silent, somebody was left out: %t",
					took, agentTimeout, len(p.silent), said.became.spared())
			}
			if !p.heard["pod-7"].known || p.heard["pod-8"].known {
				t.Errorf("heard %+v", p.heard)
			}
		}
		if said.servers["pod-7"] != rollout.ServerRecovering || said.servers["pod-8"] != rollout.ServerUnknown || said.quorum.Known {
			t.Errorf("it was said: %+v", said)
		}
		p, began := fortyPods(), time.Now()
		said = r.interview(t.Context(), p, worthwhile)
		if took := time.Since(began); took != 0 || len(p.silent) != 39 || !said.became.spared() {
			t.Errorf("the same agents were asked again for %s, and %d are silent", took, len(p.silent))
		}
	})
}

func TestWhoeverWasAskedInVainIsAskedNothingElseInTheSameTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes   time.Duration
		failure error
		again   bool
	}{
		"it answers":                  {failure: nil, again: true},
		"it answers late":             {takes: 2 * time.Second, failure: nil, again: true},
		"it refuses at once":          {failure: syscall.ECONNREFUSED, again: true},
		"it is silent":                {takes: 3 * time.Second, failure: context.DeadlineExceeded},
		"it refuses after its time":   {takes: 2 * time.Second, failure: syscall.ECONNRESET},
		"it cannot be reached at all": {failure: syscall.EHOSTUNREACH},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAsker(clock.RealClock{}, 4)
				asked := false
				first := question{of: "a", ask: func(ctx context.Context) error {
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
					}
					return c.failure
				}}
				second := question{of: "a", ask: func(context.Context) error { asked = true; return nil }}
				for _, q := range a.inTurn([]question{first}, []question{second}) {
					if err := q.ask(t.Context()); (err == nil) != c.again {
						t.Errorf("asking failed: %v", err)
					}
				}
				if asked != c.again {
					t.Errorf("it is asked something else: %t, want %t", asked, c.again)
				}
			})
		})
	}
}

// brokenSnapshot is a node that does not work, whose start has had its time.
func brokenSnapshot(server rollout.ServerState) rollout.Snapshot {
	return rollout.Snapshot{Now: noon(), Partitions: rollout.Partitions{Known: true}, Nodes: []rollout.Node{{
		PodName: "a", Broker: true, Server: server, Reasons: []rollout.Reason{{Code: rollout.ConfigChanged}},
		Pod: rollout.Pod{UID: "1", State: rollout.Unready, Since: noon().Add(-time.Hour)},
	}}}
}

func TestNothingIsDisruptedOnPresumedSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first    fate
		answer   rollout.ServerState
		then     fate
		act      bool
		unproven bool
	}{
		"it is silent when it is asked":               {first: silent, act: true},
		"it answers by now, and reads its logs":       {first: presumed, answer: rollout.ServerRecovering, then: answered},
		"it is silent when it is asked once more":     {first: presumed, then: silent, act: true},
		"there was no time, and it is silent":         {first: unasked, then: silent, act: true},
		"there was no time to ask":                    {first: presumed, then: unasked, unproven: true},
		"there was no place to wait for it":           {first: presumed, then: presumed, unproven: true},
		"there was no time to ask, and no place then": {first: unasked, then: presumed, unproven: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := consider(func(of reach) (sight, error) {
				if of == worthwhile {
					return sight{snapshot: brokenSnapshot(rollout.ServerUnknown), became: fates{answered, c.first}}, nil
				}
				return sight{snapshot: brokenSnapshot(c.answer), became: fates{answered, c.then}}, nil
			})
			if err != nil || (got.decided.Act != nil) != c.act || got.unproven != c.unproven {
				t.Errorf("decided %+v, unproven %t, %v", got.decided, got.unproven, err)
			}
		})
	}
}

func TestASilentClusterIsLookedAtWhenItIsAskedAgain(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(noon())
	for name, c := range map[string]struct {
		silentFor time.Duration
		heard     bool
		became    fates
		want      time.Duration
	}{
		"everybody answers":                             {heard: true, became: fates{answered}, want: lookAgain},
		"nobody answers, since just now":                {became: fates{silent}, want: lookAgain},
		"nobody answers, for twenty seconds":            {silentFor: 20 * time.Second, became: fates{silent}, want: 20 * time.Second},
		"nobody is believed to, for twenty seconds":     {silentFor: 20 * time.Second, became: fates{presumed}, want: 20 * time.Second},
		"there was no time to ask, for twenty seconds":  {silentFor: 20 * time.Second, became: fates{unasked}, want: 20 * time.Second},
		"nobody answers, for an hour":                   {silentFor: time.Hour, became: fates{silent}, want: longestPause},
		"somebody is silent, since just now":            {heard: true, became: fates{answered, silent}, want: lookAgain},
		"somebody has been silent for an hour":          {silentFor: time.Hour, heard: true, became: fates{answered, silent}, want: askAgain},
		"somebody is believed to have been for an hour": {silentFor: time.Hour, heard: true, became: fates{presumed, answered}, want: askAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(Options{Clock: now, Metrics: NewMetrics()})
			p := passOf(&kafkav1.Kafka{}, nil)
			p.became, p.heard = c.became, map[string]testimony{"a": {known: c.heard}}
			r.asking.standings[p.kafka.UID] = map[string]standing{
				"b": {failure: context.DeadlineExceeded, silentSince: noon().Add(-c.silentFor), tried: noon()},
			}
			if got := r.unlessSilent(p, lookAgain); got != c.want {
				t.Errorf("it is looked at again after %s, want %s", got, c.want)
			}
		})
	}
}

// Who had no time to answer, because somebody else was waited for, has not shown to be slow.
func TestWhoHadNoTimeToAnswerIsNotSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := withoutPlaces()
		inFiveMs := answersAfter(5 * time.Millisecond)
		if got := a.onePass(t.Context(), "kafka", worthwhile, putTo("b", 1, inFiveMs)); got[0] != answered {
			t.Fatal(got)
		}
		v := a.visit("kafka")
		defer v.leave()
		v.put(t.Context(), worthwhile, putTo("a", 1, blackHole))
		v.put(t.Context(), worthwhile, putTo("b", 1, inFiveMs))
		for of, s := range a.standings["kafka"] {
			if strings.HasPrefix(of, "b") && s.slow() {
				t.Errorf("%s counts as slow: %+v", of, s)
			}
		}
	})
}
