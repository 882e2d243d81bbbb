package trust

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The world of the walk is a small cluster reduced to what trust depends on. Its
// state is one comparable value, so that a set of states is a map.

const (
	maxNodes   = 3
	maxAnchors = 3
)

// The planes of the world: Kafka's. They are numbered where states are kept by plane.
const (
	dataAt = iota
	controlAt
	raftAt
)

var (
	dataPlane    = Plane{Name: "data", Persists: true}
	controlPlane = Plane{Name: "control", Bundle: Late, Persists: true}
	raftPlane    = Plane{Name: "raft", Bundle: Late, Trust: AtStart, Identity: AtStart, Keeper: "the Raft client"}

	worldPlanes = [...]Plane{dataAt: dataPlane, controlAt: controlPlane, raftAt: raftPlane}
)

// numberOf is the number of a plane.
func numberOf(p Plane) int { return slices.Index(worldPlanes[:], p) }

// mask is a set of anchors, bit by bit; anchor 0 is "A", the first authority.
type mask uint8

func (m mask) has(anchor int) bool { return m>>anchor&1 == 1 }

// ident is a presented identity: who signed the leaf, and who the cross
// certificates that go along. Key and anchor have the same number, except when
// the world says that two anchors share a key.
type ident struct {
	signer int8 // none is -1
	cross  mask
}

// store is what one plane of a node has loaded.
type store struct {
	trust mask
	ident ident
}

// pub is a publication, as it stands in the node's Secret.
type pub struct {
	data, control mask
	ident         ident
}

func (p pub) dataStore() store    { return store{p.data, p.ident} }
func (p pub) controlStore() store { return store{p.control, p.ident} }

// node is one dual-role node.
type node struct {
	// published is in the API server, mounted in the pod; a kubelet lags.
	published, mounted pub
	// between is a publication that was replaced before it was mounted; a late
	// kubelet may still show it.
	between pub
	running bool
	// data, control and raft are what the running process has loaded.
	data, control, raft store
	// persisted is what reloads have left in the server's metadata; it wins
	// over what is mounted at every later start.
	persisted         bool
	persData, persCtl store
	// staticData is what the data plane was started with; the Raft client tells
	// the rest of it.
	staticData mask
	// told is a publication that the server was told to load, and telling the planes
	// in which it has not taken it over yet, bit by bit.
	told    pub
	telling mask
	// backup is what stood in the node's Secret when somebody deleted that.
	backup pub
	// joined is false for a node that does not exist yet.
	joined bool
	// lies is true once its agent says whatever it likes, unseen once its pod has lost
	// the labels by which it is looked for.
	lies, unseen bool
	// late is true of a process that was started after A had expired: it has no
	// connections from before.
	late bool
	// offered is who signed what an issuer has issued for the node last.
	offered int8
}

// state is one state of the world.
type state struct {
	stored [maxAnchors]uint8 // index into stateNames
	// app is the application bundle, appFirst its first entry.
	app      mask
	appFirst int8
	// aged is true once applications had the time to read the bundle.
	aged bool
	// reader and readerFirst are what an application has last read.
	reader      mask
	readerFirst int8
	operator    ident
	issuing     int8
	// offered is who signed what an issuer has issued for the operator last.
	offered int8
	// user is the certificate of a user of the clients CA.
	user ident
	// expired is true once anchor A has reached its end.
	expired bool
	// off is true once reload has been switched off.
	off bool
	// further is what the owner of the authority has done about anchor C, of which he
	// wants users verified beside those of the one that issues.
	further further
	nodes   [maxNodes]node
	// left counts the events that may still happen.
	left budget
}

// further is what the owner of an authority has done about another of his.
type further uint8

const (
	ownerSilent further = iota
	ownerAdds
	ownerTakes
)

// theFurther is the anchor that an owner adds and takes away.
const theFurther = maxAnchors - 1

// budget bounds what people and accidents do, so that the world is finite.
type budget struct {
	replace, abort, lose, loseNode, edit, crash, recreate, expire, off, join, lie, hide, owner, offer int8
}

var stateNames = [...]State{Absent, Untrusted, TrustedUnused, InUseAny, InUseAll, PhaseOut}

func stateIndex(s State) uint8 {
	for i, name := range stateNames {
		if name == s {
			return uint8(i)
		}
	}
	panic("unknown state " + string(s))
}

// rules is what does not change in a world.
type rules struct {
	name  string
	nodes int
	// cross[a] are the authorities that signed a cross certificate for a.
	cross [maxAnchors]mask
	// keyOf[a] is the key of anchor a; two anchors may share one.
	keyOf  [maxAnchors]int8
	policy Policy
	// lost are the anchors whose keys are not at hand: they sign nothing any more.
	lost mask
	// strict verifiers tell two anchors of one key apart, as those do that compare the
	// subject and the key identifier.
	strict bool
	// A credulous operator knows every authority that a report names; one that looks
	// byLabel takes a pod without labels for none.
	credulous, byLabel bool
	// extra makes liars claim an authority beside what they run on, and not in its place.
	extra bool
	// compromised anchors are distrusted as soon as they are replaced.
	compromised mask
	// companions are the last of the nodes: clients of the data plane.
	companions int
	// clients makes it the domain of a clients CA: nodes only verify, and users
	// present, some of whom nobody knows.
	clients bool
	// pinned says that an application which knows only anchor 0 is served.
	pinned bool
	// deaf operators do not hear what the owner of an authority wants beside it, and
	// keepers not what he has taken away.
	deaf, keeper bool
	// slow servers take over what they are told some time later. Where it is hidden, the
	// operator does not know what they were told.
	slow, hidden bool
	// patient worlds have no restarts that nobody waits for; they end, as far as
	// the walk goes, in the Raft remainder.
	patient bool
	begin   budget
	// outside issuers hold the keys: they sign by any authority, whichever is asked for. A hasty operator gives out
	// whatever they have issued.
	outside, hasty bool
	// A rekeyed issuer signs by nothing but the authority that shall issue, and no lost Secret comes back.
	rekeyed bool
	// listed says that the owner wants all authorities trusted, and that the one issues by which the operator's
	// certificate was issued last.
	listed bool
}

var (
	worldTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	names     = [maxAnchors]AnchorID{"A", "B", "C"}
	keys      = [maxAnchors]KeyID{"keyA", "keyB", "keyC"}
)

// first is a cluster at rest under anchor A.
func (w *rules) first() state {
	s := state{app: 1, reader: 1, aged: true, left: w.begin}
	s.stored[0] = stateIndex(InUseAll)
	s.operator = ident{signer: 0}
	for i := range s.nodes {
		s.nodes[i].published.ident.signer = -1
		if i >= w.nodes {
			continue
		}
		if i >= w.nodes-int(w.begin.join) {
			continue
		}
		p := pub{data: 1, control: 1, ident: ident{signer: 0}}
		s.nodes[i] = node{joined: true, published: p, mounted: p}
		w.start(&s.nodes[i])
	}
	return s
}

// accepts is the verification of X.509, written without a look at the code that
// is judged: a chain from the leaf to a trusted anchor, perhaps by way of a cross
// certificate.
func (w *rules) accepts(trust mask, i ident) bool {
	for a := range maxAnchors {
		same := a == int(i.signer) || !w.strict && w.keyOf[a] == w.keyOf[i.signer]
		if trust.has(a) && (same || i.cross.has(int(w.keyOf[a]))) {
			return true
		}
	}
	return false
}

// serves is the same with a look at the clock: once A has expired, its leaves are
// accepted by nobody, and who trusts nothing else accepts nobody. No order of steps can
// help them, so that nothing is owed to them.
func (w *rules) serves(s *state, trust mask, i ident) bool {
	if !s.expired {
		return w.accepts(trust, i)
	}
	alive := trust &^ 1
	return alive == 0 || w.keyOf[i.signer] == w.keyOf[0] || w.accepts(alive, ident{i.signer, i.cross &^ 1})
}

// unconnected reports a process that was started after A had expired and has nothing
// that a controller would accept it by, or it a controller.
func (w *rules) unconnected(s *state, n *node) bool {
	return s.expired && n.running && n.late && (n.raft.trust == 1 || n.raft.ident.signer == 0)
}

// abandoned reports a process that cannot go on without a restart for which nobody
// waits.
func (w *rules) abandoned(s *state, plan *Plan) string {
	for _, l := range plan.Loads {
		if i := l.Member[len(l.Member)-1] - '0'; l.MayBeDeferred && s.expired && s.nodes[i].raft.trust == 1 {
			return string(l.Member) + " holds nothing in memory that has not expired, and its restart has time"
		}
	}
	return ""
}

// neglected reports a node without a further authority that counts as trusted
// everywhere, or, at the end, with one that its owner has taken away.
func (w *rules) neglected(s *state, done bool) string {
	trusted := usage(stateNames[s.stored[theFurther]]) >= usage(TrustedUnused)
	for i := range w.nodes {
		has := s.nodes[i].data.trust.has(theFurther)
		switch {
		case s.further == ownerAdds && (trusted || done) && s.nodes[i].running && !has:
			return fmt.Sprintf("node %d does not verify users of the authority that the owner has added", i)
		case s.further == ownerTakes && done && has:
			return fmt.Sprintf("node %d verifies users of the authority that the owner has taken away", i)
		}
	}
	return ""
}

// stranger reports an authority that nobody made and somebody was given.
func (w *rules) stranger(s *state) string {
	for i := range w.nodes {
		if given := w.named(s.nodes[i].published); given.has(liars) && w.begin.replace < liars && s.further == ownerSilent {
			return fmt.Sprintf("node %d is told to trust what a liar claims", i)
		}
	}
	return ""
}

// liars is the anchor that liars claim in worlds that do not get to it otherwise.
const liars = maxAnchors - 1

// unsafe is law S: it returns who cannot talk to whom, or "".
func (w *rules) unsafe(s *state) string {
	for i := range w.nodes {
		p := &s.nodes[i]
		if !p.running || p.lies {
			continue
		}
		if w.clients {
			if wrong := w.unsafeUsers(s, i); wrong != "" {
				return wrong
			}
			continue
		}
		for j := range w.nodes {
			v := &s.nodes[j]
			if !v.running || v.lies || i == j || w.companion(i) && w.companion(j) {
				continue
			}
			switch {
			case !w.serves(s, v.data.trust, p.data.ident):
				return fmt.Sprintf("node %d does not accept node %d on the data plane", j, i)
			case w.companion(i) || w.companion(j):
			case !w.serves(s, v.control.trust, p.raft.ident):
				return fmt.Sprintf("controller %d does not accept the Raft client of node %d", j, i)
			case !w.serves(s, v.raft.trust, p.control.ident):
				return fmt.Sprintf("the Raft client of node %d does not accept controller %d", j, i)
			}
		}
		if w.companion(i) {
			continue
		}
		if w.outside && !w.serves(s, p.raft.trust, p.control.ident) {
			return fmt.Sprintf("the Raft client of node %d does not accept its own controller", i)
		}
		if wrong := w.unsafeOutside(s, i); wrong != "" {
			return wrong
		}
	}
	return ""
}

// unsafeUsers is law S in the domain of a clients CA.
func (w *rules) unsafeUsers(s *state, i int) string {
	trust := s.nodes[i].data.trust
	switch {
	case s.expired && trust == 1:
		return "" // whoever trusts only what has expired accepts nobody, whatever is shown
	case !w.accepts(trust, s.user):
		return fmt.Sprintf("node %d does not accept the user", i)
	case w.policy.Retirement == RetireExpired && !s.expired && !w.accepts(trust, ident{signer: 0}):
		return fmt.Sprintf("node %d does not accept a user that nobody knows", i)
	}
	return ""
}

// unsafeOutside is law S between one running node, the operator and applications.
func (w *rules) unsafeOutside(s *state, i int) string {
	n := &s.nodes[i]
	switch {
	case !w.serves(s, n.data.trust, s.operator):
		return fmt.Sprintf("node %d does not accept the operator on the data plane", i)
	case !w.serves(s, n.control.trust, s.operator):
		return fmt.Sprintf("controller %d does not accept the operator", i)
	case !w.serves(s, s.reader, n.data.ident):
		return fmt.Sprintf("an application that reads the whole bundle does not accept node %d", i)
	case w.pinned && !w.serves(s, 1<<s.readerFirst, n.data.ident):
		return fmt.Sprintf("an application that reads the first entry does not accept node %d", i)
	case w.pinned && !w.serves(s, 1, n.data.ident):
		return fmt.Sprintf("an application that knows only A does not accept node %d", i)
	}
	return ""
}

// named are the anchors that a publication names.
func (w *rules) named(p pub) mask {
	if w.clients {
		return p.data
	}
	return p.data | p.control
}

// unstartable reports a node that could not start now, because what is mounted
// names an anchor that the trusted-certs Secret no longer holds.
func (w *rules) unstartable(s *state) string {
	for i := range w.nodes {
		n := &s.nodes[i]
		for a := range maxAnchors {
			if !n.lies && w.named(n.mounted).has(a) && stateNames[s.stored[a]] == Absent {
				return fmt.Sprintf("node %d would wait for anchor %s at its start", i, names[a])
			}
		}
	}
	return ""
}

// companion reports whether a node is one of the companions.
func (w *rules) companion(i int) bool { return i >= w.nodes-w.companions }

// canonical renames the nodes, so that states that differ only by who is who
// are one.
func (w *rules) canonical(s state) state {
	for i := 1; i < w.nodes-w.companions; i++ {
		for j := i; j > 0 && s.nodes[j].less(&s.nodes[j-1]); j-- {
			s.nodes[j], s.nodes[j-1] = s.nodes[j-1], s.nodes[j]
		}
	}
	return s
}

func (n *node) less(o *node) bool {
	a, b := n.code(), o.code()
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// code lays a node out as bytes, only to compare it.
func (n *node) code() [48]uint8 {
	var out [48]uint8
	k := 0
	put := func(values ...uint8) { k += copy(out[k:], values) }
	putStore := func(s store) { put(uint8(s.trust), uint8(s.ident.signer), uint8(s.ident.cross)) }
	putPub := func(p pub) { put(uint8(p.data), uint8(p.control), uint8(p.ident.signer), uint8(p.ident.cross)) }
	putPub(n.published)
	putPub(n.mounted)
	putPub(n.between)
	putPub(n.told)
	putPub(n.backup)
	put(uint8(n.offered), truth(n.running), truth(n.persisted), truth(n.joined), truth(n.lies), truth(n.unseen), truth(n.late), uint8(n.staticData), uint8(n.telling))
	for _, s := range [...]store{n.data, n.control, n.raft, n.persData, n.persCtl} {
		putStore(s)
	}
	return out
}

// exists reports whether the node was ever given anything.
func (n *node) exists() bool { return n.published.data != 0 || n.backup != (pub{}) }

// secretLost reports whether somebody has deleted the node's Secret.
func (n *node) secretLost() bool { return n.published.data == 0 && n.backup != (pub{}) }

// restorable reports whether the Secret can be put back to what a pod waits for: the
// next pod waits for more than a backup holds.
func (n *node) restorable() bool { return n.secretLost() && n.mounted.data != 0 }

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// The rest prints states for a person who has to understand a counterexample.

func (m mask) String() string {
	out := ""
	for a := range maxAnchors {
		if m.has(a) {
			out += string(names[a])
		}
	}
	return "{" + out + "}"
}

func (i ident) String() string {
	if i.signer < 0 {
		return "nothing"
	}
	if i.cross == 0 {
		return string(names[i.signer])
	}
	return fmt.Sprintf("%s+%v", names[i.signer], i.cross)
}

func (s store) String() string { return fmt.Sprintf("trusts %v shows %v", s.trust, s.ident) }

func (p pub) String() string {
	return fmt.Sprintf("data %v control %v shows %v", p.data, p.control, p.ident)
}

func (w *rules) print(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  issuing %s, stored", names[s.issuing])
	for a := range maxAnchors {
		if name := stateNames[s.stored[a]]; name != Absent {
			fmt.Fprintf(&b, " %s=%s", names[a], name)
		}
	}
	fmt.Fprintf(&b, ", application %v first %s aged %v, read %v first %s, operator %v\n",
		s.app, names[s.appFirst], s.aged, s.reader, names[s.readerFirst], s.operator)
	for i := range w.nodes {
		n := &s.nodes[i]
		if !n.joined {
			continue
		}
		fmt.Fprintf(&b, "  node %d published: %v\n", i, n.published)
		if n.mounted != n.published {
			fmt.Fprintf(&b, "         mounted: %v\n", n.mounted)
		}
		if n.secretLost() {
			b.WriteString("         its Secret is lost\n")
		}
		if n.between != (pub{}) {
			fmt.Fprintf(&b, "         between: %v\n", n.between)
		}
		if n.running {
			fmt.Fprintf(&b, "         data %v; control %v; raft %v\n", n.data, n.control, n.raft)
		} else {
			b.WriteString("         no process\n")
		}
		if w.outside {
			fmt.Fprintf(&b, "         issued by %s\n", names[n.offered])
		}
		if n.lies {
			b.WriteString("         its agent lies\n")
		}
		if n.unseen {
			b.WriteString("         its pod has lost its labels\n")
		}
		if n.persisted {
			fmt.Fprintf(&b, "         persisted data %v; control %v\n", n.persData, n.persCtl)
		}
	}
	return b.String()
}
