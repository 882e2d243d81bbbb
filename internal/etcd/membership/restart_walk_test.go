package membership_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// publish changes the CAs.
func publish(w *world) { w.published++ }

// expire ends the validity of all CAs but those that were published last.
func expire(w *world) { w.valid = w.published }

// hurry makes the CAs expire soon that were published before.
func hurry(w *world) {
	publish(w)
	w.urgent = true
}

// due is what etcd in a pod is to be started again for, as its agent reports.
func (w *world) due(p pod) membership.Due {
	if p.mountedCAs == p.loaded || !p.running && !p.restarting {
		return membership.Due{}
	}
	return membership.Due{Revision: int64(p.mountedCAs), Loaded: int64(p.loaded), IsUrgent: w.urgent || p.loaded < w.valid}
}

// mountCAs shows a pod the CAs that are published.
func (w *world) mountCAs(name string) {
	if p, exists := w.pods[name]; exists {
		p.mountedCAs = w.published
		w.pods[name] = p
	}
}

// startAgain is an agent that ends etcd, to start it under the mounted CAs. It reports whether it did.
func (w *world) startAgain(name string) bool {
	p, exists := w.pods[name]
	if !exists || !p.running || p.asked <= p.loaded || p.asked > p.mountedCAs {
		return false
	}
	p.running, p.restarting = false, true
	p.starts++
	w.pods[name] = p
	return true
}

// lead makes a member the leader.
func (w *world) lead(name string) {
	for _, s := range w.list {
		if s.name == name && !s.isLearner && w.serves(s) {
			w.leader = s.id
		}
	}
}

// asked counts the members that stay and are to be started again, and were not yet.
func (w *world) asked() int {
	asked := 0
	for _, m := range w.members {
		if p := w.pods[m.Name]; !m.IsLeaving && (p.running || p.restarting) && p.asked > p.loaded {
			asked++
		}
	}
	return asked
}

// isSpared reports whether the voters are a quorum without those that are started again. Two voters never are.
func (w *world) isSpared() bool {
	voters, serving := 0, 0
	for _, s := range w.list {
		if s.isLearner {
			continue
		}
		voters++
		if p := w.pods[s.name]; w.serves(s) && p.asked <= p.loaded {
			serving++
		}
	}
	return voters <= 2 || serving >= voters/2+1
}

// isCalm reports whether nothing goes wrong that takes a member away.
func (b budget) isCalm() bool {
	return b.pods+b.claims+b.restarts+b.ends+b.empties+b.machines+b.expiries == 0
}

// startAgain holds that a member is started at most once for each change of its CAs, and, where nothing else takes a member away,
// that the quorum stays.
func (wk *walker) startAgain(w *world, name string) {
	wk.t.Helper()
	had := w.quorate()
	if !w.startAgain(name) {
		return
	}
	if starts := w.pods[name].starts; starts >= w.published {
		wk.t.Fatalf("%s is started %d times: %s", name, starts, w.key())
	}
	if wk.isCalm && had && !w.quorate() && w.voters() > 2 {
		wk.t.Fatalf("the start of %s takes the quorum away: %s", name, w.key())
	}
}

func (w *world) voters() int {
	voters := 0
	for _, s := range w.list {
		if !s.isLearner {
			voters++
		}
	}
	return voters
}

func TestMembersLoadChangedCAsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from      int
		ephemeral bool
		change    func(w *world)
		left      budget
	}{
		"three":                      {3, false, publish, budget{crashes: 1, leaders: 1}},
		"three, without volumes":     {3, true, publish, budget{crashes: 1, leaders: 1}},
		"two operators":              {3, false, publish, budget{rivals: 1, leaders: 1}},
		"two operators, soon":        {3, false, hurry, budget{rivals: 1, leaders: 1}},
		"two operators, other pods":  {3, false, func(w *world) { publish(w); reshape(w) }, budget{rivals: 1, leaders: 1}},
		"two operators, upgraded":    {3, false, func(w *world) { publish(w); upgrade(w) }, budget{rivals: 1}},
		"three, soon":                {3, false, hurry, budget{crashes: 1, leaders: 1}},
		"agents are silent":          {3, false, publish, budget{silences: 2, leaders: 1}},
		"changed twice":              {3, false, publish, budget{publications: 1}},
		"changed twice, soon":        {3, false, hurry, budget{publications: 1}},
		"pods are lost":              {3, false, publish, budget{pods: 1}},
		"pods are lost, soon":        {3, false, hurry, budget{pods: 1}},
		"data are lost":              {3, false, publish, budget{pods: 1, claims: 1}},
		"data are lost, soon":        {3, false, hurry, budget{pods: 1, claims: 1}},
		"they expire":                {3, false, publish, budget{expiries: 1, crashes: 1}},
		"they expire, and one ends":  {3, false, publish, budget{expiries: 1, pods: 1}},
		"they expire without volume": {3, true, publish, budget{expiries: 1, restarts: 1}},
		"one":                        {1, false, publish, budget{pods: 1, crashes: 1, restarts: 1, expiries: 1, publications: 1}},
		"two":                        {2, false, publish, budget{crashes: 1, expiries: 1, lags: 1}},
		"one to three":               {1, false, func(w *world) { publish(w); w.size = 3 }, budget{publications: 1}},
		"one to three, soon":         {1, false, func(w *world) { hurry(w); w.size = 3 }, budget{crashes: 1, expiries: 1}},
		"three to one":               {3, false, func(w *world) { publish(w); w.size = 1 }, budget{crashes: 1, expiries: 1}},
		"upgraded":                   {3, false, func(w *world) { publish(w); upgrade(w) }, budget{crashes: 1}},
		"upgraded, agents silent":    {3, false, func(w *world) { publish(w); upgrade(w) }, budget{silences: 1}},
		"upgraded, soon":             {3, false, func(w *world) { hurry(w); upgrade(w) }, budget{}},
		"other pods":                 {3, false, func(w *world) { publish(w); reshape(w) }, budget{expiries: 1}},
		"pods that do not start":     {3, false, func(w *world) { publish(w); breakPods(w) }, budget{pods: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wk := &walker{t: t, seen: map[string]bool{}, settles: map[string]bool{}, isCalm: test.left.isCalm()}
			w := settled(test.from, test.ephemeral)
			test.change(w)
			wk.walk(w, test.left)
			t.Logf("%d states", len(wk.seen))
		})
	}
}
