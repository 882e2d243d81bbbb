package membership_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// moment is a state of a world and the changes of its spec that are still to come.
type moment struct {
	step

	changes []func(w *world)
}

// walkChanging visits every state of a world whose spec changes at any time, each change once.
func walkChanging(t *testing.T, w *world, left budget, changes ...func(w *world)) {
	t.Helper()
	walkers, seen := map[string]*walker{}, map[string]bool{}
	todo := []moment{{step{w, left}, changes}}
	for len(todo) > 0 && !t.Failed() {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := fmt.Sprint(at.world.key(), at.left, len(at.changes), at.world.spec())
		if seen[key] {
			continue
		}
		seen[key] = true
		wk := walkers[at.world.spec()]
		if wk == nil {
			wk = &walker{t: t, settles: map[string]bool{}}
			walkers[at.world.spec()] = wk
		}
		wk.settle(at.world)
		for _, next := range wk.next(at.step) {
			todo = append(todo, moment{next, at.changes})
		}
		if len(at.changes) > 0 {
			changed := at.world.clone()
			at.changes[0](changed)
			todo = append(todo, moment{step{changed, at.left}, at.changes[1:]})
		}
	}
	t.Logf("%d states", len(seen))
}

func resize(size int) func(w *world) { return func(w *world) { w.size = size } }

func upgrade(w *world) { w.version = "3.6.16" }

func reshape(w *world) { w.shape = "other" }

func breakPods(w *world) { w.shape = broken }

// takeBack is possible until all members run the new version.
func takeBack(w *world) {
	if slices.ContainsFunc(w.members, func(m membership.Member) bool {
		return m.Version != w.version || w.pods[m.Name].version != w.version || !w.pods[m.Name].running
	}) {
		w.version = "3.5.35"
	}
}

func TestTheSpecChangesAtAnyTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from      int
		ephemeral bool
		left      budget
		changes   []func(w *world)
	}{
		"upgraded and grown":              {3, false, budget{pods: 1}, []func(w *world){upgrade, resize(5)}},
		"upgraded and shrunk":             {3, false, budget{pods: 1}, []func(w *world){upgrade, resize(1)}},
		"upgraded and taken back":         {3, false, budget{pods: 1}, []func(w *world){upgrade, takeBack}},
		"one upgraded and taken back":     {1, false, budget{pods: 1, claims: 1, crashes: 1}, []func(w *world){upgrade, takeBack}},
		"three to one and back":           {3, false, budget{pods: 1, crashes: 1}, []func(w *world){resize(1), resize(3)}},
		"created, resized and upgraded":   {0, false, budget{crashes: 1}, []func(w *world){resize(3), upgrade, resize(1)}},
		"other pods, then upgraded":       {3, false, budget{pods: 1}, []func(w *world){reshape, upgrade}},
		"upgraded, then other pods":       {3, false, budget{crashes: 1}, []func(w *world){upgrade, reshape}},
		"pods that do not start, mended":  {3, false, budget{pods: 1, crashes: 1}, []func(w *world){breakPods, reshape}},
		"one that does not start, mended": {1, false, budget{pods: 1, crashes: 1}, []func(w *world){breakPods, reshape}},
		"ephemeral, broken and mended":    {3, true, budget{pods: 1}, []func(w *world){breakPods, reshape}},
		"ephemeral, upgraded and grown":   {3, true, budget{}, []func(w *world){upgrade, resize(5)}},
		"four, upgraded, and three again": {4, false, budget{}, []func(w *world){upgrade, resize(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settled(test.from, test.ephemeral)
			test.changes[0](w)
			walkChanging(t, w, test.left, test.changes[1:]...)
		})
	}
}

// unrecorded is a pod with the name of a member that is not recorded; empty when there is none.
func (w *world) unrecorded() string {
	for _, name := range memberNames {
		p, exists := w.pods[name]
		if exists && !slices.ContainsFunc(w.members, func(m membership.Member) bool { return m.PodUID == p.uid }) {
			return name
		}
	}
	return ""
}

func TestALostStatusIsRecoveredByDoingWhatItSays(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"all of it":                func(w *world) { w.members = nil },
		"the last member":          func(w *world) { w.members = w.members[:2] },
		"the first member":         func(w *world) { w.members = w.members[1:] },
		"the UID of a pod":         func(w *world) { w.members[1].PodUID = "" },
		"all of it, and one claim": func(w *world) { w.members = nil; w.lose(first); w.kill(first) },
		"the ids": func(w *world) {
			for i := range w.members {
				w.members[i].ID = ""
			}
		},
		"the roles": func(w *world) {
			for i := range w.members {
				w.members[i].IsVoter = false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settled(3, false)
			w.members = slices.Clone(w.members)
			lose(w)
			var d membership.Decision
			for range 200 {
				d = w.decide()
				if err := w.carryOut(d.Act, false); err != nil {
					t.Fatal(err)
				}
				w.report(d)
				for _, each := range memberNames {
					if err := w.start(each); err != nil {
						t.Fatal(err)
					}
				}
				if d.Obstacle != nil && d.Obstacle.Reason == membership.UnknownMemberPod { // a person deletes it
					w.kill(w.unrecorded())
				}
			}
			if w.serving() != 3 || len(w.members) != 3 || len(w.list) != 3 {
				t.Errorf("%d serve, %d are recorded, etcd has %d; decision %+v %+v", w.serving(), len(w.members), len(w.list), d.Act, d.Obstacle)
			}
		})
	}
}

func TestAVersionAndAnotherSpecGoInOneRestart(t *testing.T) {
	t.Parallel()
	w := settled(3, false)
	before := maps.Clone(w.pods)
	upgrade(w)
	reshape(w)
	deleted := 0
	for range 60 {
		d := w.decide()
		if _, is := d.Act.(membership.DeletePod); is {
			deleted++
		}
		if err := w.carryOut(d.Act, false); err != nil {
			t.Fatal(err)
		}
		w.report(d)
		for _, name := range memberNames {
			if err := w.start(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if deleted != 3 || w.outdated() > 0 || w.serving() != 3 || w.pods[first].uid == before[first].uid {
		t.Errorf("%d pods were deleted, %d are outdated, %d members serve", deleted, w.outdated(), w.serving())
	}
}
