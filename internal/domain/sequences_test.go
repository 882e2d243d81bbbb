package domain_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

var wide = flag.Bool("wide", false, "play thousands of sequences")

// sequences are how many random sequences are played, besides those that are named, and wideSequences how many with -wide.
const (
	sequences, wideSequences = 150, 5000
	// In forgottenInARow, a CA of a row of cross certificates is given up and known no more, while members still present the row.
	forgottenInARow = 3028
	// In rowIsFull, a sixth CA is given up while members trust only the first, which a row of the longest length leads to.
	rowIsFull = 979
	// In forgottenIsPresented, members present a cross certificate by a CA that was given up and is known no more, while another is trusted.
	forgottenIsPresented = 2219
)

const mostMembers = 5

func TestMembersAcceptEachOtherWhateverIsAskedForInWhateverOrder(t *testing.T) {
	t.Parallel()
	seeds := []uint64{forgottenInARow, rowIsFull, forgottenIsPresented}
	played := sequences
	if *wide {
		played = wideSequences
	}
	for seed := range uint64(played) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, random.IntN(4), []publication.Domain{peer, clients}[:1+random.IntN(2)]...)
			w.settle()
			var played []string
			for range 3 + random.IntN(10) {
				played = append(played, w.happens(random))
				for range random.IntN(14) {
					w.isSafe()
					if !w.step() {
						break
					}
				}
			}
			w.answer()
			w.comesToOneCA()
			if t.Failed() {
				t.Log(played)
			}
		})
	}
}

// happens asks for something, or has members join or fall silent, and says what it was.
func (w *world) happens(random *rand.Rand) string {
	of := w.domains[random.IntN(len(w.domains))]
	names := names(of)
	switch random.IntN(9) {
	case 0, 1:
		w.ask(names.KeySecret, forceReplace)
		return "replace " + string(of)
	case 2:
		w.ask(names.CertSecret, forceRenew)
		return "renew " + string(of)
	case 3, 4:
		w.ask(names.KeySecret, authority.AbortReplaceAnnotation)
		return "abort " + string(of)
	case 5:
		w.annotate(names.KeySecret, authority.DistrustAnnotation, authority.DistrustNow)
		return "distrust " + string(of)
	case 6:
		if name := fmt.Sprintf("my-cluster-%d", 10+len(w.members)); len(w.members) < mostMembers {
			w.join(name)
		}
		return "join"
	case 7:
		for _, name := range w.names() {
			if m := w.members[name]; random.IntN(2) == 0 {
				m.isSilent, m.changed = !m.isSilent, w.now
			}
		}
		return "silence"
	default:
		passed := time.Duration(random.IntN(60)) * time.Hour
		w.now = w.now.Add(passed)
		return passed.String()
	}
}

// answer has all members answer again.
func (w *world) answer() {
	w.now = w.now.Add(time.Minute)
	for _, m := range w.members {
		m.isSilent, m.changed = false, w.now
	}
}

// comesToOneCA holds that each domain ends with one CA, unless a person has to solve a problem.
func (w *world) comesToOneCA() {
	w.t.Helper()
	hasProblem := func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(w.decideAll())), func(d *domain.Decided) bool { return len(d.Problems) > 0 })
	}
	for range 24 {
		if w.settle() || hasProblem() {
			break
		}
		w.now = w.now.Add(40 * time.Hour)
	}
	if hasProblem() {
		return
	}
	for _, of := range w.domains {
		w.forgetRenewed(of)
		w.trustsAlone(of)
	}
}

// forgetRenewed drops from what members trust the earlier certificates of the key of the CA, where they trust that, too. The law lets
// a process keep those until it starts.
func (w *world) forgetRenewed(of publication.Domain) {
	w.t.Helper()
	ca := w.ca(of)
	for _, m := range w.members {
		if slices.ContainsFunc(m.trusted[of], ca.Equal) {
			m.trusted[of] = slices.DeleteFunc(m.trusted[of], func(anchor *certificate) bool { return !anchor.Equal(ca) && pki.KeyIDOf(anchor) == pki.KeyIDOf(ca) })
		}
	}
}
