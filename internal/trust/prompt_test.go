package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Etcd loads the anchors of its ports at its start only, and must not go on trusting one that is withdrawn. Its world has
// members that verify each other on one plane; leaves are loaded with each connection.

// promptNode is a member of it.
type promptNode struct {
	published, mounted, loaded store
	// silent is true while its agent does not answer.
	silent bool
}

// promptTime is how far time has come: the certificate of anchor A is in its prime, its end is near, or it is over.
type promptTime uint8

const (
	inTime promptTime = iota
	nearEnd
	afterEnd
)

// promptState is one state of it.
type promptState struct {
	stored   [maxAnchors]uint8
	app      mask
	appFirst int8
	aged     bool
	issuing  int8
	// begun is true once anchor B exists.
	begun bool
	time  promptTime
	// stopped is a member that found nothing to start on, or -1.
	stopped int8
	nodes   [maxNodes]promptNode
	left    promptBudget
}

// promptBudget bounds accidents.
type promptBudget struct{ crash, abort, silent, lose int8 }

// promptRules are what does not change in it.
type promptRules struct {
	name                     string
	nodes                    int
	crossed, distrusts, same bool
	// lasting processes are not restarted for what is withdrawn. Of endless ones nobody knows when what they hold ends.
	lasting, endless bool
	begin            promptBudget
	// restarts is how often a member may be restarted where no accident happens.
	restarts int
}

func promptWorlds() []promptRules {
	return []promptRules{
		{name: "renewed under the same key", nodes: 2, same: true, begin: promptBudget{crash: 1, silent: 1, lose: 1}, restarts: 1},
		{name: "classic", nodes: 2, begin: promptBudget{crash: 1, abort: 1, lose: 1}, restarts: 2},
		{name: "classic, a silent agent", nodes: 2, begin: promptBudget{crash: 1, abort: 1, silent: 1}, restarts: 2},
		{name: "cross-signed", nodes: 2, crossed: true, begin: promptBudget{crash: 1, abort: 1}, restarts: 1},
		{name: "cross-signed, distrusted", nodes: 2, crossed: true, distrusts: true, begin: promptBudget{crash: 1, lose: 1}, restarts: 1},
		{name: "classic, three members", nodes: 3, begin: promptBudget{crash: 1}, restarts: 2},
	}
}

func widePromptWorlds() []promptRules {
	accidents, all := promptBudget{crash: 1, abort: 1, silent: 1}, promptBudget{crash: 1, abort: 1, lose: 1}
	return []promptRules{
		{name: "cross-signed, trusted-certs lost", nodes: 2, crossed: true, begin: all, restarts: 1},
		{name: "cross-signed, distrusted, aborted", nodes: 2, crossed: true, distrusts: true, begin: all, restarts: 1},
		{name: "cross-signed, three members", nodes: 3, crossed: true, begin: accidents, restarts: 1},
		{name: "classic, three members, a silent agent", nodes: 3, begin: accidents, restarts: 2},
	}
}

func (w *promptRules) key(a int) KeyID {
	if w.same {
		return keys[0]
	}
	return keys[a]
}

func (w *promptRules) plane() Plane {
	return Plane{Name: "peer", Trust: AtStart, Prompt: !w.lasting, Keeper: "etcd"}
}

// first is a cluster at rest under anchor A.
func (w *promptRules) first() promptState {
	s := promptState{app: 1, aged: true, stopped: -1, left: w.begin}
	s.stored[0] = stateIndex(InUseAll)
	for i := range w.nodes {
		s.nodes[i] = promptNode{published: store{trust: 1}, mounted: store{trust: 1}, loaded: store{trust: 1}}
	}
	return s
}

func (w *promptRules) identity(i ident) Identity {
	if i.signer < 0 {
		return Identity{}
	}
	return Identity{Signer: w.key(int(i.signer)), Cross: keyLists[i.cross]}
}

// identOf is the inverse. Of two anchors with one key the signer is A: their leaves are alike.
func (w *promptRules) identOf(i Identity) ident {
	out := ident{signer: int8(slices.Index(keys[:], i.Signer))}
	for _, k := range i.Cross {
		out.cross |= 1 << slices.Index(keys[:], k)
	}
	return out
}

func (w *promptRules) stores(s store) Stores {
	return Stores{Trust: lists[s.trust], Identity: w.identity(s.ident)}
}

// end is when an anchor ends.
func (w *promptRules) end(anchor int) time.Time {
	return worldTime.Add(time.Duration(1+anchor) * 300 * day)
}

func (s *promptState) now(w *promptRules) time.Time {
	return map[promptTime]time.Time{inTime: worldTime, nearEnd: w.end(0).Add(-time.Hour), afterEnd: w.end(0).Add(time.Hour)}[s.time]
}

func (w *promptRules) observe(s *promptState) Snapshot {
	out := Snapshot{Now: s.now(w), Issuing: names[s.issuing], Policy: Policy{Lead: time.Minute, RestartMargin: 30 * day}}
	out.Application = Application{Anchors: []AnchorID{names[s.appFirst]}, Since: out.Now}
	if s.aged {
		out.Application.Since = out.Now.Add(-time.Hour)
	}
	for a := range maxAnchors {
		if s.app.has(a) && int8(a) != s.appFirst {
			out.Application.Anchors = append(out.Application.Anchors, names[a])
		}
	}
	for a := range s.anchors() {
		out.Anchors = append(out.Anchors, w.anchor(s, a))
	}
	for i := range w.nodes {
		out.Members = append(out.Members, w.member(s, i))
	}
	return out
}

func (s *promptState) anchors() int {
	if s.begun {
		return 2
	}
	return 1
}

func (w *promptRules) anchor(s *promptState, a int) Anchor {
	replaced := s.begun && int8(a) != s.issuing
	out := Anchor{
		ID: names[a], Key: w.key(a), NotAfter: w.end(a), Stored: stateNames[s.stored[a]], Signs: true, Compromised: w.distrusts && replaced,
	}
	if w.crossed && s.begun && !replaced {
		out.Cross = []Cross{{Issuer: keys[1-a], NotAfter: w.end(0), Distrusted: w.distrusts}}
	}
	return out
}

func (w *promptRules) member(s *promptState, i int) Member {
	n := &s.nodes[i]
	e := Evidence{Process: ProcessRunning, Loaded: w.stores(n.loaded), HeldUntil: w.lasts(n.loaded.trust)}
	if n.mounted != n.published {
		e.Mounted = []Stores{w.stores(n.mounted)}
	}
	if w.endless {
		e.HeldUntil = time.Time{}
	}
	if n.silent {
		e = Evidence{}
	}
	return Member{
		ID: members[i], Published: Publication{Main: lists[n.published.trust], Identity: w.identity(n.published.ident)}, LastsUntil: w.lasts(n.published.trust),
		Roles: []Role{{Name: "peer", Plane: w.plane(), Verifies: true, Presents: true, Evidence: e}},
	}
}

// lasts is the last end of anchors.
func (w *promptRules) lasts(trust mask) time.Time {
	var last time.Time
	for a := range maxAnchors {
		if trust.has(a) {
			last = w.end(a)
		}
	}
	return last
}

// accepts is the verification of X.509: a chain from the leaf to an anchor that has not expired.
func (w *promptRules) accepts(s *promptState, trust mask, i ident) bool {
	for a := range maxAnchors {
		valid := a > 0 || s.time != afterEnd
		if trust.has(a) && valid && (w.key(a) == w.key(int(i.signer)) || i.cross.has(a)) {
			return true
		}
	}
	return false
}

// start begins a process on what is mounted. Its leaf is the mounted one if that belongs to what it trusts.
func (w *promptRules) start(s *promptState, i int) {
	n := &s.nodes[i]
	n.loaded.trust = n.mounted.trust
	switch {
	case w.accepts(s, n.mounted.trust, n.mounted.ident):
		n.loaded.ident = n.mounted.ident
	case !w.accepts(s, n.mounted.trust, n.loaded.ident):
		s.stopped = int8(i)
	}
}

// unsafe returns who cannot talk to whom, or "".
func (w *promptRules) unsafe(s *promptState) string {
	if s.stopped >= 0 {
		return fmt.Sprintf("%s cannot start", members[s.stopped])
	}
	for i := range w.nodes {
		for j := range w.nodes {
			if i != j && !w.accepts(s, s.nodes[j].loaded.trust, s.nodes[i].loaded.ident) {
				return fmt.Sprintf("%s does not accept %s", members[j], members[i])
			}
		}
	}
	return ""
}

func (s *promptState) putStates(p *Plan) {
	for a := range s.anchors() {
		s.stored[a] = stateIndex(p.States[names[a]])
	}
}

func (s *promptState) putApplication(p *Plan) {
	was, wasFirst := s.app, s.appFirst
	s.app = maskOf(p.Application)
	if len(p.Application) > 0 {
		s.appFirst = index(p.Application[0])
	}
	s.aged = s.aged && s.app&^was == 0 && s.appFirst == wasFirst
}

func (w *promptRules) putPublication(s *promptState, p *Plan, i int) {
	given := p.Publications[members[i]]
	s.nodes[i].published = store{maskOf(given.Main), w.identOf(given.Identity)}
}

// reload takes over the leaf that is mounted.
func (w *promptRules) reload(s *promptState, i int) {
	if n := &s.nodes[i]; w.accepts(s, n.mounted.trust, n.mounted.ident) {
		n.loaded.ident = n.mounted.ident
	}
}

// restarts are the members that are to be restarted, and are waited for.
func (p *Plan) restarts() []int {
	var out []int
	for _, l := range p.Loads {
		if l.How == ByRestart && !l.MayBeDeferred {
			out = append(out, slices.Index(members[:], l.Member))
		}
	}
	return out
}

// moves are all successors of a state.
func (w *promptRules) moves(s *promptState, p *Plan) []promptState {
	var out []promptState
	can := func(may bool, do func(*promptState)) {
		if may {
			to := *s
			do(&to)
			out = append(out, to)
		}
	}
	can(true, func(to *promptState) { to.putStates(p) })
	written := *s
	written.putStates(p)
	can(written == *s, func(to *promptState) { to.putApplication(p) })
	written.putApplication(p)
	for i := range w.nodes {
		n := &s.nodes[i]
		can(written == *s, func(to *promptState) { w.putPublication(to, p, i) })
		can(true, func(to *promptState) { to.nodes[i].mounted = n.published })
		can(true, func(to *promptState) { w.reload(to, i) })
		can(slices.Contains(p.restarts(), i), func(to *promptState) { w.start(to, i) })
		can(s.left.crash > 0, func(to *promptState) { to.left.crash--; w.start(to, i) })
		can(s.left.silent > 0 && !n.silent, func(to *promptState) { to.left.silent--; to.nodes[i].silent = true })
		can(n.silent, func(to *promptState) { to.nodes[i].silent = false })
	}
	can(true, func(to *promptState) { to.aged = true })
	can(!s.begun, func(to *promptState) { to.begun, to.issuing = true, 1 })
	can(s.begun && s.left.abort > 0, func(to *promptState) { to.left.abort--; to.issuing = 1 - to.issuing })
	can(s.begun && s.left.lose > 0, func(to *promptState) { to.left.lose--; to.stored = [maxAnchors]uint8{} })
	can(w.same && s.begun && s.time == inTime, func(to *promptState) { to.time = nearEnd })
	return out
}

// course is what everybody obeying leads to.
type course struct {
	end      promptState
	plan     Plan
	restarts [maxNodes]int
	wrong    string
}

// obey lets everybody do what is asked until nothing moves any more. Time does not stand still for a renewal.
func (w *promptRules) obey(s promptState) course {
	c := course{end: s}
	for range 100 {
		before := c.end
		w.write(&c.end)
		for i := range w.nodes {
			c.end.nodes[i].silent, c.end.nodes[i].mounted = false, c.end.nodes[i].published
			w.reload(&c.end, i)
		}
		c.plan = Decide(w.observe(&c.end))
		if asked := c.plan.restarts(); len(asked) > 0 {
			w.start(&c.end, asked[0])
			c.restarts[asked[0]]++
		}
		c.end.aged = true
		if c.wrong = w.unsafe(&c.end); c.wrong != "" {
			return c
		}
		switch {
		case c.end != before:
		case w.same && c.end.time != afterEnd:
			c.end.time++
		default:
			c.wrong = w.unended(&c)
			return c
		}
	}
	c.wrong = "no end although everybody obeys"
	return c
}

func (w *promptRules) write(s *promptState) {
	p := Decide(w.observe(s))
	s.putStates(&p)
	s.putApplication(&p)
	p = Decide(w.observe(s))
	for i := range w.nodes {
		w.putPublication(s, &p, i)
	}
}

// unended says what is wrong with the end of a course.
func (w *promptRules) unended(c *course) string {
	if !c.plan.Done {
		return fmt.Sprintf("nothing moves any more, and it is not done: %+v", c.plan.Blockers)
	}
	for i := range w.nodes {
		loaded := c.end.nodes[i].loaded
		extra := loaded.trust &^ (1 << c.end.issuing)
		if !loaded.trust.has(int(c.end.issuing)) || extra != 0 && !w.same || w.key(int(loaded.ident.signer)) != w.key(int(c.end.issuing)) {
			return fmt.Sprintf("at the end %s %v", members[i], loaded)
		}
	}
	return ""
}

// judge says what is wrong with a state.
func (w *promptRules) judge(s *promptState, p *Plan) string {
	if wrong := w.unsafe(s); wrong != "" {
		return wrong
	}
	if w.same && s.time == inTime && len(p.restarts()) > 0 && s.left == w.begin {
		return "a member is restarted for a renewal long before the old certificate ends"
	}
	if !s.begun {
		return ""
	}
	c := w.obey(*s)
	if c.wrong != "" {
		return c.wrong
	}
	if most := slices.Max(c.restarts[:]); most > w.restarts && s.left == w.begin {
		return fmt.Sprintf("a member is restarted %d times, want %d at most", most, w.restarts)
	}
	return ""
}

// walk visits every state and returns how many there are, and the first that something is wrong with.
func (w *promptRules) walk() (states int, wrong string) {
	seen, queue := map[promptState]bool{w.first(): true}, []promptState{w.first()}
	for ; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		p := Decide(w.observe(&s))
		if wrong := w.judge(&s, &p); wrong != "" {
			return len(seen), fmt.Sprintf("%s in %+v", wrong, s)
		}
		for _, to := range w.moves(&s, &p) {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return len(seen), ""
}

func TestWhoMustForgetPromptlyIsSafeAndEndsAtTheTargetAlone(t *testing.T) {
	t.Parallel()
	all := promptWorlds()
	if *wide {
		all = append(all, widePromptWorlds()...)
	}
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			states, wrong := w.walk()
			t.Logf("%d states, budget %+v", states, w.begin)
			if wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func TestItIsAMistakeToLeaveTheTrustOfEtcdToItsNextRestart(t *testing.T) {
	t.Parallel()
	for _, w := range promptWorlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.lasting, w.endless, w.begin = !w.same, w.same, promptBudget{}
			states, wrong := w.walk()
			if wrong == "" {
				t.Fatalf("no state of %d shows that it is", states)
			}
			t.Logf("after %d states: %s", states, strings.SplitN(wrong, " in {", 2)[0])
		})
	}
}
