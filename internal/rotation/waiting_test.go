package rotation

import (
	"testing"

	"github.com/keyturn/keyturn/internal/trust"
)

func TestEachPodThatIsWaitedForIsNamedOnce(t *testing.T) {
	t.Parallel()
	members := []trust.Member{{ID: "my-dual-0"}, {ID: "my-dual-1"}, {ID: "my-dual-10"}}
	for name, c := range map[string]struct {
		peers []string
		want  string
	}{
		"one role of a pod":       {[]string{"my-dual-0 raft"}, "my-dual-0 [raft]"},
		"roles of one pod":        {[]string{"my-dual-0 raft", "my-dual-0 agent"}, "my-dual-0 [agent, raft]"},
		"roles of several pods":   {[]string{"my-dual-1 raft", "my-dual-0 raft", "my-dual-0 agent"}, "my-dual-0, my-dual-1"},
		"pods with similar names": {[]string{"my-dual-10 raft", "my-dual-1 raft"}, "my-dual-1, my-dual-10"},
		"a pod as a whole":        {[]string{"my-dual-0"}, "my-dual-0"},
		"somebody else":           {[]string{"the end of the policy"}, "the end of the policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := byMember(c.peers, members); got != c.want {
				t.Errorf("it names %q, want %q", got, c.want)
			}
		})
	}
}
