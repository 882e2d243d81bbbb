package domain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// steps does so many things of those that there are to be done.
func (w *world) steps(count int) {
	w.t.Helper()
	for range count {
		w.isSafe()
		if !w.step() {
			return
		}
	}
}

// length is how many steps a new key takes.
func length(t *testing.T) int {
	t.Helper()
	w := newWorld(t, 3, peer)
	w.settle()
	w.ask("peer", forceReplace)
	count := 0
	for w.step() {
		count++
	}
	return count
}

func TestACAIsMadeWhereThereIsNone(t *testing.T) {
	t.Parallel()
	for name, left := range map[string][]string{"nothing is left": nil, "the certificate of an earlier one is left": {"peer-cert"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0, peer)
			former := w.ca(peer)
			maps.DeleteFunc(w.secrets, func(secret string, _ authority.Stored) bool { return !slices.Contains(left, secret) })
			if isDone := w.settle(); !isDone || w.ca(peer).Equal(former) || !pki.IssuedBy(w.ca(peer), w.parent.Certificate()) {
				t.Fatalf("it is done: %t, with a CA of %s", isDone, w.ca(peer).Issuer)
			}
			for _, member := range []string{"my-cluster-0", "my-cluster-1"} {
				w.join(member)
			}
			w.settle()
			w.trustsAlone(peer)
		})
	}
}

// A restore from the wrong backup replaces both Secrets of a CA by another pair. Members trust the CA that was there, and go on
// accepting each other.
func TestACAThatIsPutInThePlaceOfAnotherSignsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	own, other := maps.Clone(w.secrets), newWorld(t, 1, peer)
	other.settle()
	w.secrets["peer"], w.secrets["peer-cert"] = other.secrets["peer"], other.secrets["peer-cert"]
	if d := w.decide(peer); len(d.Problems) != 1 || strings.Contains(d.Problems[0].Remedy, "to false") || w.step() {
		t.Fatalf("the problems are %v, and something is written", d.Problems)
	}
	restored := newWorld(t, 3, peer)
	restored.secrets, restored.members = maps.Clone(own), w.members
	if isDone := restored.settle(); !isDone || restored.mostRestarts() > 0 {
		t.Errorf("with the right Secrets it is done: %t, after %d restarts", isDone, restored.mostRestarts())
	}
}

// At each point of a rotation.
func TestANewKeyCanBeTakenBackAtAnyPoint(t *testing.T) {
	t.Parallel()
	for at := range length(t) {
		w := newWorld(t, 3, peer)
		w.settle()
		former := w.ca(peer)
		w.ask("peer", forceReplace)
		w.steps(at)
		w.ask("peer", authority.AbortReplaceAnnotation)
		if isDone := w.settle(); !isDone {
			t.Fatalf("it does not end when it is taken back after %d steps: %+v", at, w.decide(peer).Plan.Blockers)
		}
		w.trustsAlone(peer)
		if isBack := w.ca(peer).Equal(former); !isBack && w.mostRestarts() > 2 {
			t.Errorf("taken back after %d steps, a member was restarted %d times", at, w.mostRestarts())
		}
	}
}

func TestALostSecretComesBackOrIsAskedForAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"peer", "peer-cert", "peer-trusted"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			for at := range length(t) {
				w := newWorld(t, 3, peer)
				w.settle()
				w.ask("peer", forceReplace)
				w.steps(at)
				w.isSafe()
				delete(w.secrets, lost)
				isDone := w.settle()
				if d := w.decide(peer); !isDone && len(d.Problems) == 0 {
					t.Errorf("lost after %d steps, it neither comes to an end nor is a problem: %+v", at, d.Plan.Blockers)
				}
			}
		})
	}
}

func TestAMemberThatJoinsAtAnyPointIsAcceptedByAll(t *testing.T) {
	t.Parallel()
	for at := range length(t) {
		w := newWorld(t, 2, peer)
		w.settle()
		w.ask("peer", forceReplace)
		w.steps(at)
		w.join("my-cluster-9")
		if isDone := w.settle(); !isDone {
			t.Fatalf("joined after %d steps, it does not come to an end: %+v", at, w.decide(peer).Plan.Blockers)
		}
		w.trustsAlone(peer)
	}
}

// join adds a member: it is given what is planned for one without a process, and started on that.
func (w *world) join(name string) {
	w.t.Helper()
	m := &member{
		key: newKey(w.t), given: map[publication.Domain][]string{}, chains: map[publication.Domain][]*certificate{},
		trusted: map[publication.Domain][]*certificate{}, isComing: true, changed: w.now,
	}
	for _, of := range w.domains {
		m.trusted[of] = nil
	}
	w.members[name] = m
	for range patience {
		decided := w.decideAll()
		if !w.writeAny(decided) && !w.give(name, decided) && !w.mount(name) {
			break
		}
	}
	w.start(name)
	m.restarts, m.isComing, w.isChecked = 0, false, false
}

func (w *world) writeAny(decided map[publication.Domain]*domain.Decided) bool {
	for _, of := range w.domains {
		if w.writeSecret(decided[of]) {
			return true
		}
	}
	return false
}

// A key that was stolen is distrusted: nothing accepts it at the end, whatever it takes.
func TestADistrustedCAIsTrustedByNothingAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	former := w.ca(peer)
	w.ask("peer", forceReplace)
	stored := w.secrets["peer"]
	stored.Annotations = maps.Clone(stored.Annotations)
	stored.Annotations[authority.DistrustAnnotation] = "now"
	w.secrets["peer"] = stored
	if isDone := w.settle(); !isDone || w.ca(peer).Equal(former) {
		t.Fatalf("it is done: %t", isDone)
	}
	w.trustsAlone(peer)
	for name, m := range w.members {
		for _, crossed := range m.chains[peer][1:] {
			if pki.IssuedBy(crossed, former) {
				t.Errorf("%s sends along what the distrusted CA has signed", name)
			}
		}
	}
	if w.mostRestarts() > 2 {
		t.Errorf("a member was restarted %d times, want twice at most", w.mostRestarts())
	}
}

// A member that does not answer holds up what depends on it, and nothing else: no other loses a connection.
func TestAMemberThatIsSilentHoldsUpTheWithdrawalAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	former := w.ca(peer)
	w.ask("peer", forceReplace)
	w.steps(3)
	w.members["my-cluster-1"].isSilent = true
	if isDone := w.settle(); isDone {
		t.Fatal("it is done although it is not known what a member trusts")
	}
	if len(w.decide(peer).Plan.Blockers) == 0 {
		t.Error("nothing says what is waited for")
	}
	w.members["my-cluster-1"].isSilent = false
	w.now = w.now.Add(time.Minute)
	if isDone := w.settle(); !isDone || w.ca(peer).Equal(former) {
		t.Errorf("it is done: %t", isDone)
	}
	w.trustsAlone(peer)
}
