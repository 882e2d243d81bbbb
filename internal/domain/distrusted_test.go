package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// remembered are the CAs that are distrusted for good.
func (w *world) remembered() []string {
	return strings.Split(w.secrets[names(peer).TrustedCertsSecret].Annotations[domain.DistrustedAnnotation], ",")
}

func TestADistrustedCADoesNotComeBackByTheWordOfAMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, peer)
	w.settle()
	stolen := w.ca(peer)
	w.ask(names(peer).KeySecret, forceReplace)
	w.annotate(names(peer).KeySecret, authority.DistrustAnnotation, authority.DistrustNow)
	isKnown := true
	for range patience { // the operator crashes after each write
		if isKnown = slices.ContainsFunc(w.anchors(peer), stolen.Equal); !isKnown && !slices.Contains(w.remembered(), pki.FingerprintOf(stolen).String()) {
			t.Fatal("the CA is removed and not remembered")
		}
		if !w.step() {
			break
		}
	}
	if isKnown {
		t.Fatalf("the stolen CA is still trusted: %+v", w.decide(peer).Plan.Blockers)
	}
	liar := w.members["my-cluster-1"]
	liar.trusted[peer], liar.changed = append(liar.trusted[peer], stolen), w.now
	w.holders = map[publication.Domain][]evidence.Holder{peer: {{Name: "an application", CA: pki.FingerprintOf(stolen).String(), NotAfter: stolen.NotAfter}}}
	for range 3 {
		if slices.ContainsFunc(w.decide(peer).Known, stolen.Equal) {
			t.Error("the stolen CA is known again")
		}
		for _, d := range w.decideAll() {
			w.writeSecret(d)
		}
	}
	if slices.ContainsFunc(w.anchors(peer), stolen.Equal) {
		t.Error("the stolen CA is trusted again")
	}
	for _, name := range []string{"my-cluster-0", "my-cluster-2"} {
		if given, _ := w.decide(peer).Given(trust.MemberID(name)); slices.ContainsFunc(given.Main, stolen.Equal) {
			t.Errorf("%s is given the stolen CA", name)
		}
	}
}

func TestACAThatItsOwnSecretsHaveIsTrustedAlthoughItWasDistrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, peer)
	w.settle()
	w.annotate(names(peer).TrustedCertsSecret, domain.DistrustedAnnotation, pki.FingerprintOf(w.ca(peer)).String())
	w.settle()
	w.trustsAlone(peer)
	if remembered := w.remembered(); remembered[0] != "" {
		t.Errorf("%v are still distrusted", remembered)
	}
}

func TestTheLastDistrustedCAsAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, peer)
	w.settle()
	all := []string{"that is none"}
	for i := range 40 {
		all = append(all, fmt.Sprintf("%064x", i))
	}
	w.annotate(names(peer).TrustedCertsSecret, domain.DistrustedAnnotation, strings.Join(all, ","))
	w.settle()
	if remembered := w.remembered(); !slices.Equal(remembered, all[len(all)-32:]) {
		t.Errorf("%d are remembered: %v", len(remembered), remembered)
	}
}
