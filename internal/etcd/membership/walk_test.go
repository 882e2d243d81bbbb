package membership_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

var wide = flag.Bool("wide", false, "walk through one more loss")

// budget is what may go wrong on a way through a world.
type budget struct {
	// losses are pods and claims that others delete, containers that end, crashes of the operator, stale caches,
	// answers of a member that it is alone, pods that end for good, volumes that are emptied under a pod, machines that
	// are made anew, changes of a pod that its kubelet mounts late, a status that is lost, other leaders, other CAs, CAs that
	// expire, agents that do not answer, and operators that do late what they have decided.
	pods, claims, restarts, crashes, lags, lies, ends, empties, machines, mounts, statuses, leaders, publications, expiries, silences, rivals int
}

// budgets are those to walk through a world with: this one, or with -wide one for each kind of loss of which one more happens.
func (b budget) budgets() []budget {
	if !*wide {
		return []budget{b}
	}
	claims, restarts, crashes := b, b, b
	claims.claims++
	restarts.restarts++
	crashes.crashes++
	return []budget{claims, restarts, crashes}
}

// walker visits every state that a world can come to.
type walker struct {
	t *testing.T
	// seen are visited states, settles those that are known to settle.
	seen    map[string]bool
	settles map[string]bool
	// isCalm is true when nothing goes wrong that takes a member away.
	isCalm bool
}

func (wk *walker) walk(w *world, left budget) {
	todo := []step{{w, left}}
	for len(todo) > 0 && !wk.t.Failed() {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := fmt.Sprintf("%s %+v", at.world.key(), at.left)
		if wk.seen[key] {
			continue
		}
		wk.seen[key] = true
		wk.settle(at.world)
		todo = append(todo, wk.next(at)...)
	}
}

type step struct {
	world *world
	left  budget
}

// next are the states that come after one.
func (wk *walker) next(at step) []step {
	var steps []step
	add := func(left budget, change func(w *world)) {
		w := at.world.clone()
		change(w)
		w.send()
		if w.quorate(); w.key() != at.world.key() || left != at.left {
			steps = append(steps, step{w, left})
		}
	}
	add(at.left, func(w *world) { wk.reconcile(w, false) })
	add(at.left, func(w *world) { w.cache = nil })
	if left := at.left; left.crashes > 0 {
		left.crashes--
		add(left, func(w *world) { wk.reconcile(w, true) })
	}
	if left := at.left; left.rivals > 0 && at.world.late == nil {
		left.rivals--
		add(left, (*world).decideLate)
	}
	if at.world.late != nil {
		add(at.left, func(w *world) {
			next := w.late
			w.late = nil
			wk.carryOut(w, next, false)
		})
	}
	if left := at.left; left.lags > 0 {
		left.lags--
		add(left, func(w *world) { w.cache = w.clone().pods })
	}
	if left := at.left; left.statuses > 0 {
		left.statuses--
		add(left, (*world).forget)
	}
	if left := at.left; left.publications > 0 {
		left.publications--
		add(left, publish)
	}
	if left := at.left; left.expiries > 0 {
		left.expiries--
		add(left, expire)
	}
	for _, name := range at.world.used() {
		if left := at.left; left.lies > 0 {
			left.lies--
			add(left, func(w *world) {
				w.liar = name
				wk.reconcile(w, false)
				w.liar = ""
			})
		}
		if left := at.left; left.silences > 0 {
			left.silences--
			add(left, func(w *world) {
				w.silent = name
				wk.reconcile(w, false)
				w.silent = ""
			})
		}
		add(at.left, func(w *world) {
			if left := at.left; left.mounts == 0 {
				w.mount(name)
			}
			wk.must(w, w.start(name))
		})
		add(at.left, func(w *world) { w.mountCAs(name) })
		add(at.left, func(w *world) { wk.startAgain(w, name) })
		if left := at.left; left.leaders > 0 {
			left.leaders--
			add(left, func(w *world) { w.lead(name) })
		}
		if at.left.mounts > 0 {
			add(at.left, func(w *world) { w.mount(name) })
		}
		if left := at.left; left.empties > 0 {
			left.empties--
			add(left, func(w *world) { w.empty(name) })
		}
		if left := at.left; left.machines > 0 {
			left.machines--
			add(left, func(w *world) { w.rebuild(name) })
		}
		if left := at.left; left.pods > 0 {
			left.pods--
			add(left, func(w *world) { w.kill(name) })
		}
		if left := at.left; left.claims > 0 {
			left.claims--
			add(left, func(w *world) { w.lose(name) })
		}
		if left := at.left; left.ends > 0 {
			left.ends--
			add(left, func(w *world) { w.end(name) })
		}
		if left := at.left; left.restarts > 0 {
			left.restarts--
			add(left, func(w *world) { w.stop(name) })
		}
	}
	return steps
}

// reconcile does one act.
func (wk *walker) reconcile(w *world, crashes bool) {
	wk.t.Helper()
	d := w.decide()
	wk.carryOut(w, d.Act, crashes)
	if !crashes {
		w.report(d)
	}
}

// carryOut does an act, and holds that it takes no quorum away and at most one member that serves.
func (wk *walker) carryOut(w *world, next membership.Act, crashes bool) {
	wk.t.Helper()
	before, had, all, spared := w.serving(), w.quorate(), w.all(), w.isSpared()
	wk.must(w, w.carryOut(next, crashes))
	if had && !w.quorate() && len(w.list) > 1 { // the only member of a cluster cannot be restarted otherwise
		wk.t.Fatalf("%T %+v takes the quorum away: %s", next, next, w.key())
	}
	if spared && !w.isSpared() || w.asked() > 1 {
		wk.t.Fatalf("%T %+v leaves no quorum beside a member that is started again: %s", next, next, w.key())
	}
	if after := w.serving(); after < before && !all {
		wk.t.Fatalf("%T %+v takes a member away while not all serve: %s", next, next, w.key())
	}
}

func (wk *walker) must(w *world, err error) {
	wk.t.Helper()
	if err != nil {
		wk.t.Fatalf("%v: %s", err, w.key())
	}
}

// settle holds that a world becomes as it shall be when nothing else goes wrong, or says that its quorum is lost.
func (wk *walker) settle(from *world) {
	wk.t.Helper()
	w, passed := from.clone(), []string{}
	w.cache = nil
	for _, name := range memberNames {
		w.mountCAs(name)
	}
	for range 100 {
		key := w.key()
		if wk.settles[key] {
			break
		}
		passed = append(passed, key)
		d := w.decide()
		if _, rests := d.Act.(membership.Rest); rests && (d.Obstacle == nil || w.isLost() && (saysLost(d.Obstacle.Reason) || w.isForgotten()) || w.shape == broken || w.staysUp(d.Obstacle.Reason)) {
			if d.Obstacle == nil && (w.serving() != w.size || len(w.list) != w.size || w.outdated() > 0) {
				wk.t.Fatalf("all is well, %d of %d members serve, and %d are outdated: %s", w.serving(), w.size, w.outdated(), w.key())
			}
			break
		}
		w.follow(d.Obstacle)
		wk.reconcile(w, false)
		for _, name := range memberNames {
			w.mount(name)
			wk.startAgain(w, name)
			wk.must(w, w.start(name))
		}
		w.send()
		if w.key() == key {
			w.pass()
		}
		if len(passed) == 100 {
			wk.t.Fatalf("it does not settle: %+v %+v\nfrom %s\nto   %s", d.Act, d.Obstacle, from.key(), w.key())
		}
	}
	for _, key := range passed {
		wk.settles[key] = true
	}
}

// follow does what a message tells a person to do after the status was lost.
func (w *world) follow(obstacle *membership.Obstacle) {
	if obstacle == nil {
		return
	}
	for _, name := range memberNames {
		p, exists := w.pods[name]
		isRecorded := slices.ContainsFunc(w.members, func(m membership.Member) bool { return m.Name == name })
		isListed := slices.ContainsFunc(w.list, func(s server) bool { return s.name == name })
		switch reason := obstacle.Reason; {
		case !exists:
		case reason == membership.UnknownMemberPod && !isRecorded, reason == membership.EtcdNotAnswering && !isRecorded && !w.quorate() && !w.ephemeral:
			w.kill(name)
			return
		case reason == membership.MemberRemoved && p.emptied && !isListed:
			w.lose(name)
			w.kill(name)
			return
		}
	}
}

// staysUp reports whether all serve with a version that they do not come back from.
func (w *world) staysUp(reason membership.Reason) bool {
	return reason == membership.DowngradeRefused && w.all() && len(w.list) == w.size
}

// saysLost reports whether a reason is one for a quorum that does not come back.
func saysLost(reason membership.Reason) bool {
	return reason == membership.QuorumLost || reason == membership.MemberDataLost
}

// isForgotten reports whether the status was lost with members of which nothing else is left.
func (w *world) isForgotten() bool {
	used := w.used()
	return slices.ContainsFunc(w.list, func(s server) bool {
		isRecorded := slices.ContainsFunc(w.members, func(m membership.Member) bool { return m.Name == s.name })
		return !isRecorded && !slices.Contains(used, s.name)
	})
}

// used are the names of members that there is anything of.
func (w *world) used() []string {
	return slices.DeleteFunc(slices.Clone(memberNames), func(name string) bool {
		_, hasPod := w.pods[name]
		_, hasClaim := w.claims[name]
		return !hasPod && !hasClaim
	})
}

func (w *world) stop(name string) {
	if p, exists := w.pods[name]; exists {
		p.running = false
		w.pods[name] = p
	}
}

// end ends the containers in a pod for good.
func (w *world) end(name string) {
	if p, exists := w.pods[name]; exists {
		p.running, p.ended = false, true
		w.pods[name] = p
	}
}

// serving are the voters that serve.
func (w *world) serving() int {
	serving := 0
	for _, s := range w.list {
		if !s.isLearner && w.serves(s) {
			serving++
		}
	}
	return serving
}

func (w *world) all() bool {
	for _, s := range w.list {
		if !s.isLearner && !w.serves(s) {
			return false
		}
	}
	return true
}

// isLost reports whether too few voters have their data.
func (w *world) isLost() bool {
	voters, have := 0, 0
	for _, s := range w.list {
		if s.isLearner {
			continue
		}
		voters++
		c, hasClaim := w.claims[s.name]
		p, hasPod := w.pods[s.name]
		if w.ephemeral && hasPod && !p.ended && p.volume == s.id || !w.ephemeral && hasClaim && c.volume == s.id && (hasPod || !c.goes) {
			have++
		}
	}
	return have < voters/2+1
}

// empty is a world in which nothing has been done yet.
func empty(size int) *world {
	return &world{size: size, version: "3.5.35", published: 1, pods: map[string]pod{}, claims: map[string]claim{}}
}

// settled is a world with so many members that serve.
func settled(size int, ephemeral bool) *world {
	w := empty(size)
	w.ephemeral = ephemeral
	for range 60 {
		d := w.decide()
		if err := w.carryOut(d.Act, false); err != nil {
			panic(err)
		}
		w.report(d)
		for _, name := range memberNames {
			w.mount(name)
			if err := w.start(name); err != nil {
				panic(err)
			}
		}
		w.send()
	}
	return w
}

func TestNoActTakesTheQuorumAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   int
		change func(w *world)
		left   budget
	}{
		"created":                   {0, func(w *world) { w.size = 3 }, budget{pods: 1, crashes: 1, lags: 1}},
		"three members":             {3, func(*world) {}, budget{pods: 2, claims: 1, crashes: 1, lags: 1}},
		"a member lies":             {3, func(*world) {}, budget{pods: 2, lies: 2}},
		"all pods end":              {3, func(*world) {}, budget{ends: 3, crashes: 1}},
		"all pods lost":             {3, func(*world) {}, budget{pods: 3, crashes: 1, restarts: 1}},
		"two members":               {2, func(*world) {}, budget{pods: 1, claims: 1, crashes: 1, restarts: 1, lags: 1}},
		"one member":                {1, func(*world) {}, budget{pods: 1, claims: 1, crashes: 1, restarts: 1, lags: 1}},
		"three to one":              {3, func(w *world) { w.size = 1 }, budget{pods: 1, claims: 1, crashes: 1, lags: 1}},
		"five to three":             {5, func(w *world) { w.size = 3 }, budget{pods: 1, claims: 1, crashes: 1}},
		"one to three":              {1, func(w *world) { w.size = 3 }, budget{pods: 1, claims: 1, crashes: 1, lags: 1}},
		"three upgraded":            {3, func(w *world) { w.version = "3.6.16" }, budget{pods: 1, claims: 1, restarts: 1}},
		"one upgraded":              {1, func(w *world) { w.version = "3.6.16" }, budget{pods: 1, crashes: 1, restarts: 1, lags: 1}},
		"three get other pods":      {3, reshape, budget{pods: 1, claims: 1, restarts: 1, crashes: 1}},
		"one gets another pod":      {1, reshape, budget{pods: 1, crashes: 1, restarts: 1, lags: 1}},
		"upgraded, with other pods": {3, func(w *world) { upgrade(w); reshape(w) }, budget{pods: 1, crashes: 1}},
		"pods that do not start":    {3, breakPods, budget{pods: 1, crashes: 1, lags: 1}},
		"fewer, with other pods":    {3, func(w *world) { reshape(w); w.size = 1 }, budget{pods: 1, claims: 1}},
		"upgraded and scaled":       {3, func(w *world) { w.version, w.size = "3.6.16", 1 }, budget{pods: 1, claims: 1, crashes: 1}},
		"one volume emptied":        {1, func(*world) {}, budget{empties: 1, machines: 1, pods: 1, crashes: 1, lags: 1}},
		"volumes emptied":           {3, func(*world) {}, budget{empties: 1, machines: 1, pods: 1, crashes: 1}},
		"a lost status, one":        {1, func(*world) {}, budget{statuses: 1, empties: 1, machines: 1, pods: 1, crashes: 1}},
		"a lost status, three":      {3, func(*world) {}, budget{statuses: 1, empties: 1, pods: 1, crashes: 1}},
		"lost twice":                {3, func(*world) {}, budget{statuses: 2, pods: 1, restarts: 1, crashes: 1}},
		"a lost status, all gone":   {3, func(*world) {}, budget{statuses: 1, pods: 3}},
		"a lost status, grown":      {1, func(w *world) { w.size = 3 }, budget{statuses: 1, pods: 1, crashes: 1}},
		"emptied early":             {0, func(w *world) { *w = *empty(1) }, budget{empties: 1, machines: 1, crashes: 1, mounts: 1}},
		"mounted late":              {2, func(w *world) { w.size = 3 }, budget{empties: 1, mounts: 1}},
		"emptied and grown":         {1, func(w *world) { w.size = 2 }, budget{empties: 1, machines: 1, mounts: 1}},
		"emptied as learner":        {1, func(w *world) { w.size = 3 }, budget{empties: 1, machines: 1, crashes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wk := &walker{t: t, seen: map[string]bool{}, settles: map[string]bool{}}
			w := settled(test.from, false)
			test.change(w)
			for _, left := range test.left.budgets() {
				wk.walk(w, left)
			}
			t.Logf("%d states", len(wk.seen))
		})
	}
}

func TestMembersWithoutVolumesAreReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world)
		left   budget
	}{
		"lost":     {func(*world) {}, budget{pods: 2, crashes: 1, restarts: 1}},
		"emptied":  {func(*world) {}, budget{empties: 1, machines: 1, pods: 1, crashes: 1}},
		"ended":    {func(*world) {}, budget{pods: 1, crashes: 1, ends: 3}},
		"upgraded": {func(w *world) { w.version = "3.6.16" }, budget{pods: 2, crashes: 1, restarts: 1}},
		"reshaped": {reshape, budget{pods: 2, crashes: 1, restarts: 1}},
		"fewer":    {func(w *world) { w.size = 1 }, budget{pods: 2, crashes: 1, restarts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wk := &walker{t: t, seen: map[string]bool{}, settles: map[string]bool{}}
			w := settled(3, true)
			test.change(w)
			wk.walk(w, test.left)
			t.Logf("%d states", len(wk.seen))
		})
	}
}
