package rollout

import "testing"

func TestADecisionAwaitsPodsWhenNothingElseCanLetItGoOn(t *testing.T) {
	t.Parallel()
	terminating := func(ids ...int) change {
		return func(s *Snapshot) {
			for _, id := range ids {
				s.Nodes[id].Pod.State = Terminating
			}
		}
	}
	removing := func(s *Snapshot) { s.Nodes[2].Removal = RemoveWhenEmpty }
	for name, test := range map[string]struct {
		changes []change
		want    bool
	}{
		"nothing is to be done":                         {nil, false},
		"a node may be restarted":                       {[]change{reason(ConfigChanged, 1)}, false},
		"a removed pod terminates":                      {[]change{removing, terminating(2)}, true},
		"another node waits until a pod has terminated": {[]change{reason(ConfigChanged, 1), terminating(2)}, true},
		"a node that is to be removed is not empty":     {[]change{removing}, false},
		"one waits for its pod and another for itself":  {[]change{removing, reason(ConfigChanged, 1), terminating(2)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decided := Decide(healthy(3, test.changes...))
			if got := decided.AwaitsPods(); got != test.want {
				t.Errorf("awaits pods: %t, want %t: %+v", got, test.want, decided)
			}
		})
	}
}
