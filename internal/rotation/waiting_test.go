package rotation

import (
	"strings"
	"testing"
	"time"

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
			if got, _ := byMember(c.peers, members); got != c.want {
				t.Errorf("it names %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatAGuardSaysFitsOneAndSeveral(t *testing.T) {
	t.Parallel()
	members := []trust.Member{{ID: "my-dual-0"}, {ID: "my-dual-1"}}
	said := func(who string) trust.Blocker {
		return trust.Blocker{Guard: trust.GuardListeners, Who: who, What: who + " does not trust it", Several: "do not trust it"}
	}
	for name, c := range map[string]struct {
		blockers []trust.Blocker
		want     string
	}{
		"one":                {[]trust.Blocker{said("my-dual-0")}, "waiting for my-dual-0 (EveryListenerTrustsNew: does not trust it)"},
		"one in two roles":   {[]trust.Blocker{said("my-dual-0 agent"), said("my-dual-0 raft")}, "waiting for my-dual-0 [agent, raft] (EveryListenerTrustsNew: does not trust it)"},
		"two":                {[]trust.Blocker{said("my-dual-0"), said("my-dual-1")}, "waiting for my-dual-0, my-dual-1 (EveryListenerTrustsNew: do not trust it)"},
		"two, in some roles": {[]trust.Blocker{said("my-dual-0 raft"), said("my-dual-1 raft")}, "waiting for my-dual-0, my-dual-1 (EveryListenerTrustsNew: do not trust it)"},
		"what is said of a file": {
			[]trust.Blocker{{Guard: trust.GuardApplications, Who: "applications", What: "ca.crt does not contain the new CA yet"}},
			"waiting for applications (ApplicationsHadTime: ca.crt does not contain the new CA yet)",
		},
		"what is the same of several": {
			[]trust.Blocker{
				{Guard: trust.GuardListeners, Who: "my-dual-0", What: "the file is missing"},
				{Guard: trust.GuardListeners, Who: "my-dual-1", What: "the file is missing"},
			},
			"waiting for my-dual-0, my-dual-1 (EveryListenerTrustsNew: the file is missing)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Waiting(c.blockers, members); len(got) != 1 || got[0] != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatCanBeDoneFitsOneAndSeveral(t *testing.T) {
	t.Parallel()
	overdue := func(ids ...trust.MemberID) string {
		s := trust.Snapshot{Now: time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)}
		plan := trust.Plan{}
		for _, id := range ids {
			s.Members = append(s.Members, trust.Member{ID: id, Kind: trust.Node})
			plan.NeedAttention = append(plan.NeedAttention, trust.Exclusion{Member: id, Reason: trust.SecretLost})
			plan.Blockers = append(plan.Blockers, trust.Blocker{Guard: trust.GuardVerified, Who: string(id), Since: s.Now.Add(-time.Hour)})
		}
		return newView(&Words{}, s, plan).help()
	}
	for said, want := range map[string]string{
		overdue("a"):      "restore the Secret of a, or the key of the CA that issued its certificate",
		overdue("a", "b"): "restore the Secrets of a, b, or the key of the CA that issued their certificates",
	} {
		if !strings.HasSuffix(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
}
