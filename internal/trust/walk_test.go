package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// walk visits every state that a world can reach and judges each.
type walk struct {
	rules *rules
	law   law
	// met are the states in the order in which they were reached, live those from
	// which everything ends well if everybody obeys.
	met, live stateSet
	// limit stops a walk that is only to find a counterexample.
	limit int
}

// run returns the first counterexample, or "".
func (k *walk) run() string {
	k.met.add(k.rules.first(), nowhere)
	for i := 0; i < k.met.len() && (k.limit == 0 || k.met.len() < k.limit); i++ {
		s := k.met.list[i].state
		plan := decide(k.rules.observe(&s, 0), k.law)
		if wrong := k.judge(&s, &plan); wrong != "" {
			return wrong + "\n" + k.trace(i)
		}
		for _, m := range k.moves(&s, &plan) {
			k.met.add(k.rules.canonical(m.to), int32(i))
		}
	}
	return ""
}

// judge asserts S, L and that no node is kept from starting.
func (k *walk) judge(s *state, plan *Plan) string {
	if wrong := k.rules.unsafe(s); wrong != "" {
		return "S is broken: " + wrong
	}
	if wrong := k.rules.unstartable(s); wrong != "" && k.rules.begin.lose == s.left.lose {
		return "a start would hang: " + wrong
	}
	if wrong := k.rules.stranger(s); wrong != "" {
		return "an authority was introduced: " + wrong
	}
	if wrong := k.rules.neglected(s, false); wrong != "" {
		return "S is broken: " + wrong
	}
	if wrong := k.rules.abandoned(s, plan); wrong != "" {
		return "L is broken: " + wrong
	}
	if wrong := k.deadlock(*s, plan); wrong != "" {
		return "L is broken: " + wrong
	}
	return ""
}

// moves are all successors of a state: accidents, what the operator does with full
// knowledge or with one node silent, and what is written late.
func (k *walk) moves(s *state, plan *Plan) []move {
	out := k.rules.accidents(s)
	out = append(out, k.rules.operates(s, 0, plan)...)
	for i := range k.rules.nodes {
		blind := decide(k.rules.observe(s, 1<<i), k.law)
		out = append(out, k.rules.operates(s, 1<<i, &blind)...)
	}
	return append(out, k.late(s, plan, out)...)
}

// late are writes that were decided, then something else happened, perhaps by the
// hand of another leader, and then they were done: unless the object itself was
// changed between, which their precondition notices.
func (k *walk) late(s *state, plan *Plan, first []move) []move {
	var out []move
	for _, c := range k.rules.writes(s, plan) {
		for _, m := range first {
			if t := m.to; c.same(s, &t) {
				c.do(&t)
				out = append(out, move{m.what + ", and then, decided before: " + c.what, t})
			}
		}
	}
	return out
}

// deadlock is law L: it lets everybody who is asked obey, and returns where that
// ends if not in one authority, trusted and used, and nothing else.
func (k *walk) deadlock(s state, now *Plan) string {
	var path []state
	defer func() {
		for _, p := range path {
			k.live.add(p, nowhere)
		}
	}()
	for range 200 {
		c := k.rules.canonical(s)
		if k.live.has(&c) {
			return ""
		}
		plan := *now
		if len(path) > 0 {
			plan = decide(k.rules.observe(&s, 0), k.law)
		}
		next, moved := k.obey(s, &plan)
		if !moved || plan.Done {
			wrong := k.rules.neglected(&s, true)
			if plan.Done && wrong == "" {
				path = append(path, c)
				return ""
			}
			path = nil
			if plan.Done {
				return "at the end " + wrong + "\n" + k.rules.print(&s) + fmt.Sprintf("%+v", plan)
			}
			return fmt.Sprintf("nothing moves any more although everybody obeys\n%s%+v", k.rules.print(&s), plan)
		}
		path = append(path, c)
		s = next
	}
	path = nil
	return "no end although everybody obeys\n" + k.rules.print(&s)
}

// obey makes one good move: mounts and processes first, then what is asked for,
// then, when nothing is left to ask, the restarts that had time.
func (k *walk) obey(s state, plan *Plan) (state, bool) {
	for i := range k.rules.nodes {
		n := &s.nodes[i]
		if !n.joined || n.published.data == 0 {
			continue
		}
		if n.mounted != n.published || !n.running && k.rules.startable(&s, n) {
			k.rules.recreateOrSync(&s, i)
			return s, true
		}
		for plane := range raftAt {
			if n.telling.has(plane) {
				n.takeOver(n.told, plane)
				n.heard(plane)
				return s, true
			}
		}
	}
	if k.rules.outside && k.rules.reissue(&s, plan) {
		return s, true
	}
	if writes := k.rules.writes(&s, plan); len(writes) > 0 {
		writes[0].do(&s)
		return s, true
	}
	for _, l := range plan.Loads {
		if moves := k.rules.loads(&s, l, 0); len(moves) > 0 && !l.MayBeDeferred {
			return moves[0].to, true
		}
	}
	if !s.aged || s.reader != s.app || s.readerFirst != s.appFirst {
		s.aged, s.reader, s.readerFirst = true, s.app, s.appFirst
		return s, true
	}
	for _, l := range plan.Loads {
		if l.MayBeDeferred {
			k.rules.recreate(&s, int(l.Member[len(l.Member)-1]-'0'))
			return s, true
		}
	}
	if k.rules.rekeyed && k.rules.remedied(&s, plan) {
		return s, true
	}
	for i := range k.rules.nodes {
		if !k.rules.rekeyed && s.nodes[i].restorable() {
			s.nodes[i].putBack()
			return s, true
		}
	}
	if s.left.expire > 0 && !s.expired {
		s.left.expire, s.expired = s.left.expire-1, true
		return s, true
	}
	return s, false
}

// reissue has the issuer issue by the authority that a plan wants; the operator asks for that once all verify it.
func (w *rules) reissue(s *state, plan *Plan) bool {
	for i := range w.nodes {
		n := &s.nodes[i]
		wanted := w.identOf(plan.Publications[members[i]].Identity).signer
		if n.joined && wanted >= 0 && wanted != n.published.ident.signer && wanted != n.offered && n.offered != w.signs(s, wanted) {
			n.offered = w.signs(s, wanted)
			return true
		}
	}
	wanted := w.identOf(plan.Publications["operator"].Identity).signer
	if wanted == s.operator.signer || wanted == s.offered || s.offered == w.signs(s, wanted) {
		return false
	}
	s.offers(w, w.signs(s, wanted))
	return true
}

// remedied has a person do what the condition of a node without a Secret and a process says: have the issuer sign with the
// outgoing CA again.
func (w *rules) remedied(s *state, plan *Plan) bool {
	for i := range w.nodes {
		n := &s.nodes[i]
		if wanted := w.identOf(plan.Publications[members[i]].Identity).signer; n.secretLost() && !n.running && n.offered != wanted {
			n.offered = wanted
			return true
		}
	}
	return false
}

// signs is by which authority an issuer signs that is asked to sign by one.
func (w *rules) signs(s *state, wanted int8) int8 {
	if w.rekeyed {
		return s.issuing
	}
	return wanted
}

func (w *rules) recreateOrSync(s *state, i int) {
	n := &s.nodes[i]
	n.mounted, n.between = n.published, pub{}
	if !n.running && w.startable(s, n) {
		w.launch(s, i)
	}
}

// trace tells the way to the nth state that was met. It walks there once more without
// renaming nodes, so that a node keeps its name from line to line.
func (k *walk) trace(n int) string {
	var path []state
	at := k.met.list[n]
	for ; at.from != nowhere; at = k.met.list[at.from] {
		path = append(path, at.state)
	}
	s := at.state
	var b strings.Builder
	b.WriteString(k.rules.print(&s))
	for _, to := range slices.Backward(path) {
		plan := decide(k.rules.observe(&s, 0), k.law)
		moves := k.moves(&s, &plan)
		i := slices.IndexFunc(moves, func(m move) bool { return k.rules.canonical(m.to) == to })
		s = moves[i].to
		fmt.Fprintf(&b, "→ %s\n%s", moves[i].what, k.rules.print(&s))
	}
	return b.String()
}

func TestEveryReachableStateIsSafeAndLive(t *testing.T) {
	t.Parallel()
	for _, w := range worlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			k := walk{rules: &w, law: theLaw()}
			start := time.Now()
			wrong := k.run()
			t.Logf("%d states in %v, budget %+v", k.met.len(), time.Since(start).Round(time.Millisecond), w.begin)
			if wrong != "" {
				t.Fatal(wrong)
			}
		})
	}
}

func TestEveryGuardIsNeeded(t *testing.T) {
	t.Parallel()
	for i, g := range guards() {
		t.Run(string(g.name), func(t *testing.T) {
			t.Parallel()
			l := theLaw()
			l.guards = slices.Delete(l.guards, i, i+1)
			refute(t, l)
		})
	}
}

func TestEveryExemptionIsNeeded(t *testing.T) {
	t.Parallel()
	for i, e := range exemptions() {
		t.Run(string(e.reason), func(t *testing.T) {
			t.Parallel()
			l := theLaw()
			l.exemptions = slices.Delete(l.exemptions, i, i+1)
			refute(t, l)
		})
	}
}

// refute expects a reachable state that shows what is wrong with a law.
func refute(t *testing.T, l law) {
	t.Helper()
	for _, w := range trials() {
		k := walk{rules: &w, law: l, limit: 20_000}
		wrong := k.run()
		if wrong == "" {
			continue
		}
		t.Logf("in %q after %d states: %s", w.name, k.met.len(), strings.SplitN(wrong, "\n", 2)[0])
		whole := walk{rules: &w, law: theLaw(), limit: k.met.len() + 1}
		if wrong := whole.run(); wrong != "" {
			t.Errorf("and the whole law is no better: %s", wrong)
		}
		return
	}
	t.Error("no reachable state shows what is wrong with that")
}

func TestNobodyWaitsForWhoTrustsOnlyWhatHasExpired(t *testing.T) {
	t.Parallel()
	l := theLaw()
	i := slices.IndexFunc(l.guards, func(g guard) bool { return g.name == GuardVerified })
	l.guards[i].blockers = func(v *view, _ *Anchor) []Blocker {
		return v.blockersWhere(verifies, func(_ *Member, _ *Role, s Stores) bool { return v.accepts(s.Trust, v.future()) }, saying{})
	}
	refute(t, l)
}

// mistaken expects that an operator that sees the world in that way does harm.
func mistaken(t *testing.T, w rules) {
	t.Helper()
	k := walk{rules: &w, law: theLaw(), limit: 50_000}
	wrong := k.run()
	if wrong == "" {
		t.Fatalf("no state of %d shows that it is", k.met.len())
	}
	t.Logf("after %d states: %s", k.met.len(), strings.SplitN(wrong, "\n", 2)[0])
}

func TestItIsAMistakeToTakeAReportForASourceOfAuthorities(t *testing.T) {
	t.Parallel()
	w := world("classic with a liar", budget{lie: 1})
	w.credulous = true
	mistaken(t, w)
}

func TestItIsAMistakeToTakeAPodThatLostItsLabelsForNone(t *testing.T) {
	t.Parallel()
	w := world("classic with a pod that lost its labels", budget{hide: 1})
	w.byLabel = true
	mistaken(t, w)
}

func TestItIsAMistakeToTakeAnAuthorityWithAnotherNameForTheSame(t *testing.T) {
	t.Parallel()
	w := world("renewed under the same key and another name", budget{}, renewed)
	w.pinned, w.strict = false, true
	mistaken(t, w)
}

func TestItIsAMistakeNotToHearWhatAnOwnerWantsBeside(t *testing.T) {
	t.Parallel()
	w := world("clients CA whose owner adds another", budget{owner: 1}, unknownUsers, notReplaced)
	w.deaf = true
	mistaken(t, w)
}

func TestItIsAMistakeToKeepWhatAnOwnerHasTakenAway(t *testing.T) {
	t.Parallel()
	w := world("clients CA whose owner takes another away", budget{owner: 2}, unknownUsers, notReplaced)
	w.keeper = true
	mistaken(t, w)
}

func TestItIsAMistakeNotToKnowWhatServersWereToldToLoad(t *testing.T) {
	t.Parallel()
	w := world("classic by slow servers, aborted", budget{abort: 1}, slowly)
	w.hidden = true
	mistaken(t, w)
}

func TestItIsAMistakeToGiveOutWhateverAnIssuerHasIssued(t *testing.T) {
	t.Parallel()
	w := world("issued outside", budget{offer: 1}, issuedOutside)
	w.hasty = true
	mistaken(t, w)
}
