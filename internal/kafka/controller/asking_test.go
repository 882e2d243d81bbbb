package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/keyturn/keyturn/internal/kafka/admin"
	agentclient "github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/rollout"
	"github.com/keyturn/keyturn/internal/trust"
)

// blackHole lets the time of a question pass.
func blackHole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
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

// silentBefore lets the asker know them as silent for long.
func silentBefore(a *asker, kafka types.UID, questions []question) {
	if a.standings[kafka] == nil {
		a.standings[kafka] = map[string]standing{}
	}
	for _, q := range questions {
		a.standings[kafka][q.of] = standing{life: q.life, failure: context.DeadlineExceeded, heardOut: true}
	}
}

func TestManyWhoAreSilentAreWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := newAsker(clock.RealClock{}, 4), time.Now()
		questions := putTo("silent", 40, blackHole)
		silentBefore(a, "k", questions)

		got := became(a.put(t.Context(), round{kafka: "k"}, questions))

		if took := time.Since(began); took != agentTimeout || got[silent] != 40 {
			t.Errorf("40 questions became %v after %s, want 40 silences after %s", got, took, agentTimeout)
		}
	})
}

func TestWhoAnsweredLastTimeIsNotKeptWaitingByTheSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(clock.RealClock{}, 4)
		a.put(t.Context(), round{kafka: "k"}, putTo("prompt", 20, prompt))
		began, answers := time.Now(), make(chan time.Duration, 20)
		questions := append(putTo("silent", 300, blackHole), putTo("prompt", 20, func(context.Context) error {
			answers <- time.Since(began)
			return nil
		})...)
		silentBefore(a, "k", questions[:300])
		ctx, cancel := context.WithTimeout(t.Context(), askingTime)
		defer cancel()

		got := became(a.put(ctx, round{kafka: "k"}, questions))

		if took := time.Since(began); took != askingTime || got[answered] != 20 {
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
		"a refusal after a while": {firstPatience - time.Millisecond, rubbish, answered},
		"a late one":              {agentTimeout - time.Millisecond, rubbish, silent},
		"a late answer":           {agentTimeout - time.Millisecond, nil, answered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAsker(clock.RealClock{}, 4)
				questions := putTo("late", 1, func(context.Context) error { <-time.After(c.after); return c.says })
				a.put(t.Context(), round{kafka: "k"}, putTo("late", 1, prompt))
				if got := a.put(t.Context(), round{kafka: "k"}, questions)[0]; got != c.want {
					t.Errorf("it became %d, want %d", got, c.want)
				}
				again := presumed
				if c.want == answered {
					again = answered
				}
				if got := a.put(t.Context(), round{kafka: "k"}, questions)[0]; got != again {
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
		if a.put(t.Context(), round{kafka: "k"}, putTo("silent", 1, late))[0] == silent {
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
	a.put(t.Context(), round{kafka: "k"}, []question{silently})
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
		if got := a.put(t.Context(), round{kafka: "k", reach: c.reach}, []question{c.question})[0]; got != c.want {
			t.Errorf("%s the question became %d, want %d", name, got, c.want)
		}
		a.put(t.Context(), round{kafka: "k", reach: everybody}, []question{silently})
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
		a.put(t.Context(), round{kafka: "k"}, []question{refuses})
	}
	if asked != 3 {
		t.Errorf("it was asked %d times in three passes", asked)
	}
}

func TestSilentClustersLeaveHalfOfThePassesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, release := newAsker(clock.RealClock{}, 4), make(chan struct{})
		hangs := question{of: "a", ask: func(context.Context) error { <-release; return context.DeadlineExceeded }}
		for _, kafka := range []types.UID{"1", "2", "3"} {
			silentBefore(a, kafka, []question{hangs})
		}
		var waiting sync.WaitGroup
		for _, kafka := range []types.UID{"1", "2"} {
			waiting.Go(func() { a.put(t.Context(), round{kafka: kafka}, []question{hangs}) })
		}
		synctest.Wait()

		if got := a.put(t.Context(), round{kafka: "3"}, []question{hangs})[0]; got != presumed {
			t.Errorf("a third cluster's question became %d, want that it is left for later", got)
		}
		if got := a.put(t.Context(), round{kafka: "4"}, putTo("prompt", 3, prompt)); became(got)[answered] != 3 {
			t.Errorf("questions to those who answer became %v", became(got))
		}
		close(release)
		waiting.Wait()
		if got := a.places.taken; got != 0 {
			t.Errorf("%d passes still have a place to wait", got)
		}
	})
}

func TestBeforeSomethingIsDoneTheSilentLeaveHalfOfThePassesToOthersToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(clock.RealClock{}, 4)
		var waiting sync.WaitGroup
		for i := range 4 {
			kafka, questions := types.UID(fmt.Sprint(i)), putTo("silent", 1, blackHole)
			silentBefore(a, kafka, questions)
			waiting.Go(func() { a.put(t.Context(), round{kafka: kafka, reach: everybody}, questions) })
		}
		synctest.Wait()

		if got := len(a.questions); got != 2 {
			t.Errorf("%d of 4 passes wait for clusters that were silent before, want 2", got)
		}
		waiting.Wait()
	})
}

func TestWhoHasToBeAskedIsAskedInTheEndBesideOthersThatAreSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		besideHoles(t, 50, 1, func(m *manyHoles) {
			questions, began := putTo("silent", 1, blackHole), time.Now()
			silentBefore(m.asker, "acts", questions)
			for m.asker.put(t.Context(), round{kafka: "acts", reach: everybody}, questions).spared() {
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

func (slow) TLS(ctx context.Context, _ agentclient.Node) (contract.TLSReport, error) {
	select {
	case <-time.After(1200 * time.Millisecond):
		return contract.TLSReport{Revision: 7}, nil
	case <-ctx.Done():
		return contract.TLSReport{}, ctx.Err()
	}
}

func TestASlowAgentIsNotCalledSilentBeforeItWasGivenTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Connector: slow{}, Clock: clock.RealClock{}, Metrics: NewMetrics(), Passes: 4})
		for _, pause := range []time.Duration{0, 100 * time.Millisecond, shortestPause} {
			<-time.After(pause)
			p := fortyPods()
			r.interview(t.Context(), p, worthwhile)
			if len(p.silent) > 0 {
				t.Errorf("%s later %d agents are called silent that were given %s once", pause, len(p.silent), firstPatience)
			}
		}
	})
}

func TestWhoDoesNotAnswerTheFirstQuestionAtOnceIsWaitedForWithTheSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := newAsker(clock.RealClock{}, 4), time.Now()
		slow := []question{{of: "slow", ask: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if deadline, _ := ctx.Deadline(); time.Until(deadline) < 2*time.Second {
				<-ctx.Done()
				return ctx.Err()
			}
			<-ctx.Done()
			return nil
		}}}

		if got := a.put(t.Context(), round{kafka: "k"}, slow)[0]; got != unasked || time.Since(began) != firstPatience {
			t.Errorf("the first question became %d after %s, want that it is given up after %s", got, time.Since(began), firstPatience)
		}
		if got := a.put(t.Context(), round{kafka: "k"}, slow)[0]; got != unasked {
			t.Errorf("the second question became %d, want that it is left for later and nothing presumed", got)
		}
		silentBefore(a, "k", slow)
		if got := a.put(t.Context(), round{kafka: "k"}, slow)[0]; got != answered {
			t.Errorf("the question that was waited for became %d, want an answer", got)
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
				a.put(t.Context(), round{kafka: types.UID(fmt.Sprint(i)), reach: everybody}, questions)
			})
		}
		passes.Wait()
		if most.Load() != questionsInAll || mostOfOne.Load() > questionsAtOnce {
			t.Errorf("%d questions were under way at once, %d in one cluster; want %d, and %d at most",
				most.Load(), mostOfOne.Load(), questionsInAll, questionsAtOnce)
		}
	})
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

		if took := time.Since(began); took != askingTime || p.waited != askingTime {
			t.Errorf("the pass has asked for %s and tells %s, want %s", took, p.waited, askingTime)
		}
		if became(first)[silent] != 3 || became(second)[unasked] != 3 || became(third)[unasked] != 3 || !p.became.spared() {
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

func (d deaf) TLS(ctx context.Context, node agentclient.Node) (contract.TLSReport, error) {
	if node.Address == d.talks {
		return contract.TLSReport{Revision: 7}, nil
	}
	return contract.TLSReport{}, blackHole(ctx)
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
	p.clusterCA.snapshot.Anchors = []trust.Anchor{{ID: "a"}}
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
		p, began := fortyPods(), time.Now()

		r.interview(t.Context(), p, worthwhile)

		if took := time.Since(began); took != firstPatience || len(p.silent) != 0 {
			t.Errorf("40 agents that were never asked were asked for %s, want %s; silent are %v", took, firstPatience, p.silent)
		}
		p, began = fortyPods(), time.Now()
		said := r.interview(t.Context(), p, everybody)
		if took := time.Since(began); took != agentTimeout || said.became.spared() {
			t.Errorf("40 agents of which one answers were asked for %s, want %s; somebody was left out: %t", took, agentTimeout, said.became.spared())
		}
		if said.servers["pod-7"] != rollout.ServerRecovering || said.servers["pod-8"] != rollout.ServerUnknown || said.quorum.Known {
			t.Errorf("it was said: %+v", said)
		}
		if !p.heard["pod-7"].known || p.heard["pod-8"].known || len(p.silent) != 39 {
			t.Errorf("heard %+v, silent %v", p.heard, p.silent)
		}
		p, began = fortyPods(), time.Now()
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
				"b": {failure: context.DeadlineExceeded, silentSince: noon().Add(-c.silentFor), asked: noon()},
			}
			if got := r.unlessSilent(p, lookAgain); got != c.want {
				t.Errorf("it is looked at again after %s, want %s", got, c.want)
			}
		})
	}
}
