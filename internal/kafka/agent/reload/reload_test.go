package reload_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestOnlyChangedStoresAreLoadedByOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	mounted := w.publish(w.leaf, w.before(), w.after())
	outcome := w.step(t, mounted)
	if !outcome.Complete || outcome.Failure != "" || len(outcome.Tried) != 4 {
		t.Errorf("outcome %+v, want four listeners loaded", outcome)
	}
	w.runsOn(t, mounted)
	want := []string{
		"write controlplane-9090-trust-a.pem", "write replication-9091-trust-a.pem", "write scram-9095-trust-a.pem", "write tls-9093-trust-a.pem",
		"set controlplane-9090-trust-a.pem, set replication-9091-trust-a.pem, set scram-9095-trust-a.pem, set tls-9093-trust-a.pem",
		"write controlplane-9090-trust-b.pem", "write replication-9091-trust-b.pem", "write scram-9095-trust-b.pem", "write tls-9093-trust-b.pem",
	}
	if diff := cmp.Diff(want, w.log); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	for listener, state := range w.States() {
		if !state.Dynamic {
			t.Errorf("%s is not said to have dynamic settings", listener)
		}
	}
}

func TestWhatIsLoadedAlreadyIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	if outcome := w.step(t, first(w)); !outcome.Complete || len(outcome.Tried) > 0 || len(w.log) > 0 {
		t.Errorf("outcome %+v after %v, want nothing done", outcome, w.log)
	}
}

func TestSlotsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	for i, mounted := range []stores.Matched{
		w.publish(w.leaf, w.before(), w.after()), w.publish(w.leaf, w.before()), w.publish(w.leaf, w.before(), w.after()),
	} {
		w.log = nil
		if outcome := w.step(t, mounted); !outcome.Complete {
			t.Fatalf("outcome %+v", outcome)
		}
		w.runsOn(t, mounted)
		if slot := []string{"a", "b", "a"}[i]; w.log[0] != "write controlplane-9090-trust-"+slot+".pem" {
			t.Errorf("reload %d begins with %q, want slot %s: the server has not set that", i, w.log[0], slot)
		}
	}
}

func TestStoresThatTheServerRefusesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.alter = func(func()) error { return &local.InvalidError{Message: "not\nlike this"} }
	outcome := w.step(t, w.publish(w.next, w.before(), w.after()))
	if outcome.Complete || !outcome.Refused || !strings.HasSuffix(outcome.Failure, "not like this") {
		t.Errorf("outcome %+v, want the server's refusal in one line", outcome)
	}
	w.runsOn(t, first(w))
}

func TestChainThatKafkaCannotLoadIsNotTried(t *testing.T) {
	t.Parallel()
	// Two cross certificates of one authority are no chain.
	twice := func(w *world) stores.Matched {
		other, err := pki.CrossSign(agenttest.Authority(t, "ca v-1", time.Now()), w.after(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		identity := w.next
		identity.Chain = append(slices.Clone(w.next.Chain), other)
		return w.publish(identity, w.before(), w.after())
	}
	w := newWorld(t, twice)
	outcome := w.step(t, twice(w))
	if outcome.Complete || !outcome.Refused || len(outcome.Tried) != 4 || len(w.log) > 0 {
		t.Errorf("outcome %+v after %v, want it refused and nothing done", outcome, w.log)
	}
	for listener, state := range w.States() {
		if len(state.Chain) != 2 {
			t.Errorf("%s is said to present %d certificates, want the two it was started with", listener, len(state.Chain))
		}
	}
}

func TestEachListenerIsReportedAsItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind           stores.Kind
		renewed        bool
		chain, anchors int
	}{
		"its key store is not read":   {stores.KeyStore(), false, 1, 2},
		"its trust store is not read": {stores.TrustStore(), true, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, first)
			w.stuck = []string{c.kind.LocationSetting(tlsLow)}
			mounted := w.publish(w.next, w.before(), w.after())
			outcome := w.step(t, mounted)
			if outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, string(tlsLow)) {
				t.Errorf("outcome %+v, want a failure that names %s", outcome, tlsLow)
			}
			states := w.States()
			if got := states[contract.ReplicationListener]; !got.Chain[0].Equal(w.next.Chain[0]) || len(got.Trusts) != 2 {
				t.Errorf("the listener that has loaded is said to have %+v", got.Report())
			}
			if got := states[tlsLow]; got.Chain[0].Equal(w.next.Chain[0]) != c.renewed || len(got.Chain) != c.chain || len(got.Trusts) != c.anchors || !got.Dynamic {
				t.Errorf("the listener that is stuck is said to have %+v", got.Report())
			}
			w.stuck = nil
			if outcome := w.step(t, mounted); !outcome.Complete || len(outcome.Tried) != 4 {
				t.Errorf("outcome %+v, want all that was never proven loaded once more", outcome)
			}
			w.runsOn(t, mounted)
		})
	}
}

func TestOneThreadOfAListenerProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	// The settings change when the last thread has loaded its stores.
	w.ahead = true
	mounted := w.publish(w.next, w.before(), w.after())
	if outcome := w.step(t, mounted); outcome.Complete || !outcome.Refused {
		t.Errorf("outcome %+v, want a failure: the server runs on other settings", outcome)
	}
	w.ahead = false
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v", outcome)
	}
}

func TestLostAnswersConverge(t *testing.T) {
	t.Parallel()
	t.Run("the change was made", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, first)
		w.alter = func(apply func()) error { apply(); return errSilent }
		mounted := w.publish(w.next, w.before(), w.after())
		if outcome := w.step(t, mounted); !outcome.Complete || outcome.Failure != "" {
			t.Errorf("outcome %+v, want success: the listeners show it", outcome)
		}
		w.runsOn(t, mounted)
	})
	t.Run("the change was not made", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, first)
		w.alter = func(func()) error { return errSilent }
		mounted := w.publish(w.next, w.before(), w.after())
		if outcome := w.step(t, mounted); outcome.Complete || !strings.Contains(outcome.Failure, errSilent.Error()) {
			t.Errorf("outcome %+v, want the missing answer", outcome)
		}
		w.runsOn(t, first(w))
		w.alter = nil
		if outcome := w.step(t, mounted); !outcome.Complete {
			t.Errorf("outcome %+v, want success", outcome)
		}
		w.runsOn(t, mounted)
	})
	t.Run("the change arrives after two newer ones", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, first)
		var late func()
		w.alter = func(apply func()) error { late = apply; return errSilent }
		w.step(t, w.publish(w.leaf, w.before(), w.after()))
		w.alter = nil
		for _, mounted := range []stores.Matched{w.publish(w.next, w.before(), w.after()), w.publish(w.next, w.after())} {
			if outcome := w.step(t, mounted); !outcome.Complete {
				t.Fatalf("outcome %+v", outcome)
			}
		}
		late()
		w.runsOn(t, w.publish(w.next, w.after()))
	})
}

func TestWhatAServerMayComeToRunOnIsToldBeforeItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	var atAlter []int64
	listen := func(err error) func(func()) error {
		return func(apply func()) error {
			atAlter = w.told
			if err == nil {
				apply()
			}
			return err
		}
	}
	told := func(what string, during, after []int64) {
		t.Helper()
		if !slices.Equal(atAlter, during) || !slices.Equal(w.told, after) {
			t.Errorf("%s: told %v when it was set and %v after it, want %v and %v", what, atAlter, w.told, during, after)
		}
		atAlter = nil
	}

	w.alter = listen(&local.InvalidError{Message: "not like this"})
	refused := w.publish(w.next, w.before(), w.after())
	w.step(t, refused)
	told("refused", []int64{refused.Publication.Revision}, nil)

	w.alter = listen(errSilent)
	unanswered := w.publish(w.next, w.before(), w.after())
	w.step(t, unanswered)
	told("unanswered", []int64{unanswered.Publication.Revision}, []int64{unanswered.Publication.Revision})
	w.step(t, unanswered)
	told("unanswered again", []int64{unanswered.Publication.Revision}, []int64{unanswered.Publication.Revision})

	w.alter = listen(nil)
	next := w.publish(w.next, w.before(), w.after())
	w.step(t, next)
	told("proven", []int64{unanswered.Publication.Revision, next.Publication.Revision}, nil)
	if w.toldNothing != len(w.log) {
		t.Errorf("it is told that nothing may come any more, and then done: %q", w.log[w.toldNothing:])
	}
}

func TestServerThatTakesItsTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	w.delay = 7
	if outcome := w.step(t, w.publish(w.next, w.before(), w.after())); !outcome.Complete {
		t.Errorf("outcome %+v, want success after some questions", outcome)
	}
	w.delay = 20
	if outcome := w.step(t, w.publish(w.next, w.after())); outcome.Complete || !outcome.Refused {
		t.Errorf("outcome %+v, want a failure when patience ends", outcome)
	}
}

func TestNewerPublicationEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.delay = 1000
	begun := w.clock.Now()
	asked := 0
	outcome := w.Step(t.Context(), w.publish(w.next, w.before(), w.after()), func() bool { asked++; return asked > 1 })
	if outcome.Complete || !outcome.Overtaken {
		t.Errorf("outcome %+v, want overtaken", outcome)
	}
	if waited := w.clock.Since(begun); waited > 0 {
		t.Errorf("waited %s, want none: something newer is mounted", waited)
	}
	w.delay = 0
	mounted := w.publish(w.next, w.after())
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v, want the newer one loaded", outcome)
	}
	w.runsOn(t, mounted)
}

func TestNothingOldIsBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	w.log = nil
	outcome := w.Step(t.Context(), w.publish(w.next, w.before(), w.after()), func() bool { return true })
	if outcome.Complete || !outcome.Overtaken || len(w.told) > 0 {
		t.Errorf("outcome %+v, told %v, want overtaken", outcome, w.told)
	}
	if slices.ContainsFunc(w.log, func(line string) bool { return strings.HasPrefix(line, "set ") }) {
		t.Errorf("the server was told all the same: %q", w.log)
	}
}

func TestListenerThatNobodyCanAskIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	w.lookErr = errSilent
	mounted := w.publish(w.next, w.before(), w.after())
	if outcome := w.step(t, mounted); outcome.Complete || outcome.Refused {
		t.Errorf("outcome %+v, want a failure that is not the server's decision", outcome)
	}
	for listener, state := range w.States() {
		if state.Known() {
			t.Errorf("%s is said to have %+v, want nothing: it was told to load something else", listener, state.Report())
		}
	}
	w.lookErr = nil
	if outcome := w.step(t, mounted); !outcome.Complete {
		t.Errorf("outcome %+v", outcome)
	}
	w.runsOn(t, mounted)
}

func TestSilentServerKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, first(w))
	w.settings = errSilent
	if outcome := w.step(t, w.publish(w.next, w.after())); outcome.Complete || outcome.Refused || outcome.Failure == "" {
		t.Errorf("outcome %+v, want a failure that passes", outcome)
	}
	w.runsOn(t, first(w))
}

func TestNodesOwnLeafMustBeAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.refused = errors.New("bad certificate")
	mounted := w.publish(w.next, w.before(), w.after())
	for range 2 {
		if outcome := w.step(t, mounted); outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, "own leaf") {
			t.Errorf("outcome %+v, want a failure each time", outcome)
		}
	}
}

func TestPersistedSettingsAreFoundAfterAnotherStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	mounted := w.publish(w.next, w.before(), w.after())
	w.step(t, mounted)
	// The control plane's static store differs: the Raft client reads it.
	for i := range mounted.Listeners {
		if mounted.Listeners[i].Name == contract.ControlPlaneListener {
			mounted.Listeners[i].Starts = first(w).Listeners[i].Trusts
		}
	}
	w.restart(mounted)
	if outcome := w.step(t, mounted); !outcome.Complete || len(w.log) > 0 {
		t.Errorf("outcome %+v after %v, want nothing left to do", outcome, w.log)
	}
	w.runsOn(t, mounted)
	if !w.States()[contract.ControlPlaneListener].Dynamic {
		t.Error("the settings are not reported")
	}
}

func TestStaticStoreOfTheControlPlaneIsReplaced(t *testing.T) {
	t.Parallel()
	both := func(w *world) stores.Matched {
		m := w.publish(w.leaf, w.before())
		m.Listeners[0].Starts = w.publish(w.leaf, w.before(), w.after()).Listeners[0].Trusts
		return m
	}
	w := newWorld(t, both)
	if outcome := w.step(t, both(w)); !outcome.Complete || !slices.Equal(outcome.Tried, []publication.Role{contract.ControlPlaneListener}) {
		t.Errorf("outcome %+v, want the control plane loaded: it was started with the Raft client's anchors", outcome)
	}
	w.runsOn(t, w.publish(w.leaf, w.before()))
}

func TestNodeLoadsOnlyWhereItListens(t *testing.T) {
	t.Parallel()
	for role, want := range map[string][]publication.Role{
		contract.RoleBroker:     {contract.ReplicationListener, open, tlsLow},
		contract.RoleController: {contract.ControlPlaneListener},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, first, role)
			if outcome := w.step(t, w.publish(w.next, w.before(), w.after())); !outcome.Complete || !slices.Equal(outcome.Tried, want) {
				t.Errorf("outcome %+v, want %v", outcome, want)
			}
		})
	}
}

func TestListenerThatTheServerHasNotYetIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) stores.Matched {
		m := first(w)
		m.Listeners = m.Listeners[:3]
		return m
	})
	if outcome := w.step(t, w.publish(w.next, w.before(), w.after())); !outcome.Complete || slices.Contains(outcome.Tried, tlsLow) {
		t.Errorf("outcome %+v, want the listeners of the running server", outcome)
	}
}

func TestSettingsAreDeletedWhenReloadsAreSwitchedOff(t *testing.T) {
	t.Parallel()
	const foreign = "listener.name.tls-9093.ssl.keystore.location"
	for name, c := range map[string]struct {
		// prepare acts on a server that was reloaded, and returns what is mounted.
		prepare func(*world) stores.Matched
		// left are the dynamic settings afterwards.
		left int
	}{
		"the server was started with what is mounted": {func(w *world) stores.Matched {
			mounted := w.publish(w.next, w.after())
			w.restart(mounted)
			return mounted
		}, 0},
		"the server was started with something else": {func(w *world) stores.Matched {
			return w.publish(w.next, w.after())
		}, 16},
		"something else is mounted by now": {func(w *world) stores.Matched {
			w.restart(w.publish(w.next, w.after()))
			return w.publish(w.next, w.before(), w.after())
		}, 16},
		"one of them is somebody else's": {func(w *world) stores.Matched {
			mounted := w.publish(w.next, w.after())
			w.files["/somewhere/else.pem"] = mounted.Listeners[0].PEM(stores.KeyStore())
			w.dynamic[foreign] = "/somewhere/else.pem"
			w.restart(mounted)
			return mounted
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, first)
			w.step(t, w.publish(w.next, w.before(), w.after()))
			w.dynamic["log.cleaner.threads"] = "2"
			mounted := c.prepare(w)
			mounted.Publication.Loading = publication.LoadByRestart
			if outcome := w.step(t, mounted); outcome.Failure != "" {
				t.Errorf("outcome %+v", outcome)
			}
			if got := len(w.dynamic) - 1; got != c.left || w.dynamic["log.cleaner.threads"] != "2" {
				t.Errorf("%d dynamic settings are left, want %d and the one that is not ours: %v", got, c.left, w.dynamic)
			}
			for listener, state := range w.States() {
				if want := c.left == 16 || c.left == 4 && listener == tlsLow; state.Dynamic != want {
					t.Errorf("%s: dynamic = %t, want %t", listener, state.Dynamic, want)
				}
			}
		})
	}
}

func TestControlPlaneFallsBackToWhatTheRaftClientReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, w.publish(w.next, w.before(), w.after()))
	mounted := w.publish(w.next, w.after())
	mounted.Listeners[0].Starts = w.publish(w.next, w.before(), w.after()).Listeners[0].Trusts
	w.restart(mounted)
	mounted.Publication.Loading = publication.LoadByRestart
	if outcome := w.step(t, mounted); !outcome.Complete || len(w.dynamic) > 0 {
		t.Errorf("outcome %+v with %v, want no setting left, and that complete", outcome, w.dynamic)
	}
	if got := w.States()[contract.ControlPlaneListener]; len(got.Trusts) != 2 {
		t.Errorf("the control plane is said to have %+v, want what it was started with", got.Report())
	}
}

func TestSettingsThatSomebodyElseChangedAreNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	mounted := w.publish(w.next, w.before(), w.after())
	w.step(t, mounted)
	if same, err := w.Check(t.Context()); !same || err != nil {
		t.Errorf("same = %t, %v; want no change", same, err)
	}
	w.apply([]local.Change{{Name: "listener.name.tls-9093.ssl.keystore.location"}, {Name: "listener.name.tls-9093.ssl.truststore.location"}})
	if same, err := w.Check(t.Context()); same || err != nil {
		t.Errorf("same = %t, %v; want the change", same, err)
	}
	if outcome := w.step(t, mounted); !outcome.Complete || !slices.Equal(outcome.Tried, []publication.Role{tlsLow}) {
		t.Errorf("outcome %+v, want the one listener loaded again", outcome)
	}
	w.runsOn(t, mounted)
}

func TestReportIsInTheWordsOfTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	w.step(t, w.publish(w.next, w.before(), w.after()))
	report := w.States()[tlsLow].Report()
	want := publication.RoleReport{
		Trusts:   slices.Sorted(slices.Values(agenttest.Fingerprints(w.before(), w.after()))),
		Presents: w.next.Fingerprint(), Chain: agenttest.Fingerprints(w.cross), NotAfter: report.NotAfter, Dynamic: true,
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if (reload.State{}).Known() {
		t.Error("nothing is said to be known")
	}
}

func TestWhatIsNotValidYetIsLoadedOnceItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, first)
	mounted := w.publish(agenttest.Leaf(t, w.old, "my-cluster-kafka", time.Now()), w.before())
	w.clock.Step(-time.Hour)
	outcome := w.step(t, mounted)
	if outcome.Complete || !outcome.Early || outcome.Refused || len(outcome.Tried) != 4 || len(w.log) > 0 {
		t.Errorf("outcome %+v after %v, want it to wait with all listeners", outcome, w.log)
	}
	if from := mounted.Node.Chain[0].NotBefore.UTC().Format(time.RFC3339); !strings.Contains(outcome.Failure, from) {
		t.Errorf("it says %q, want the time %s", outcome.Failure, from)
	}
	w.runsOn(t, first(w))
	w.clock.Step(time.Hour)
	if outcome := w.step(t, mounted); !outcome.Complete || outcome.Early || outcome.Failure != "" {
		t.Errorf("outcome %+v, want it loaded", outcome)
	}
	w.runsOn(t, mounted)
}
