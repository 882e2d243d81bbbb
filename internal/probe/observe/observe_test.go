package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe/reach"
)

func second(n int) time.Time { return time.Date(2026, 11, 21, 7, 0, n, 0, time.UTC) }

func TestObserverCountsRestartsAndTimes(t *testing.T) {
	t.Parallel()
	up := func(uid string, restarts int32, ready bool) []reach.Node {
		return []reach.Node{{Name: "node-0", UID: uid, Address: "10.0.0.1", Ready: ready, Restarts: restarts}}
	}
	again := func(restart string) []reach.Node {
		nodes := up("a", 0, true)
		nodes[0].Restart = restart
		return nodes
	}
	cases := map[string]struct {
		looks    [][]reach.Node
		restarts int
		states   []State
	}{
		"nothing happens": {
			looks:  [][]reach.Node{up("a", 2, true), up("a", 2, true)},
			states: []State{{From: second(0), To: second(1), Up: true, Ready: true}},
		},
		"a pod is replaced": {
			looks:    [][]reach.Node{up("a", 0, true), {}, up("b", 0, false), up("b", 0, true)},
			restarts: 1,
			states: []State{
				{From: second(0), To: second(1), Up: true, Ready: true},
				{From: second(1), To: second(2)},
				{From: second(2), To: second(3), Up: true},
				{From: second(3), To: second(3), Up: true, Ready: true},
			},
		},
		"a pod is replaced between two looks": {
			looks:    [][]reach.Node{up("a", 0, true), up("b", 0, true)},
			restarts: 1,
			states:   []State{{From: second(0), To: second(1), Up: true, Ready: true}},
		},
		"a server is started again in its container": {
			looks:    [][]reach.Node{again("3"), again("4"), again("4")},
			restarts: 1,
			states:   []State{{From: second(0), To: second(2), Up: true, Ready: true}},
		},
		"a container dies twice in its pod": {
			looks:    [][]reach.Node{up("a", 1, true), up("a", 3, true)},
			restarts: 2,
			states:   []State{{From: second(0), To: second(1), Up: true, Ready: true}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := New(nil, nil, nil)
			for i, found := range c.looks {
				o.see(found, second(i))
			}
			want := []Log{{Node: "node-0", Restarts: c.restarts, States: c.states}}
			if diff := cmp.Diff(want, o.Logs()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}
