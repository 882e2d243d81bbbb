package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/status"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestStatesOfANode(t *testing.T) {
	t.Parallel()
	start := func(n *status.Node) { n.Started(1, time.Time{}, nil) }
	for name, c := range map[string]struct {
		steps     []func(*status.Node)
		state     int
		readiness agent.Readiness
	}{
		"it waits for a mount": {
			[]func(*status.Node){func(n *status.Node) { n.Waiting(agent.ReasonWaitingForMounts, []string{"anchor a"}) }},
			contract.StateNotRunning,
			agent.Readiness{Reason: agent.ReasonWaitingForMounts, WaitingFor: []string{"anchor a"}},
		},
		"it starts": {
			[]func(*status.Node){start}, contract.StateStarting, agent.Readiness{Reason: agent.ReasonStarting},
		},
		"it recovers its logs": {
			[]func(*status.Node){start, (*status.Node).Recovering}, contract.StateRecovery, agent.Readiness{Reason: agent.ReasonStarting},
		},
		"it is asked in vain while it starts": {
			[]func(*status.Node){start, func(n *status.Node) { n.NotServing("fenced") }},
			contract.StateStarting,
			agent.Readiness{Reason: agent.ReasonStarting, WaitingFor: []string{"fenced"}},
		},
		"it serves": {
			[]func(*status.Node){start, func(n *status.Node) { n.Serving() }}, contract.StateRunning, agent.Readiness{Ready: true},
		},
		"it serves, and a late line speaks of recovery": {
			[]func(*status.Node){start, func(n *status.Node) { n.Serving() }, (*status.Node).Recovering},
			contract.StateRunning,
			agent.Readiness{Ready: true},
		},
		"it serves no more": {
			[]func(*status.Node){start, func(n *status.Node) { n.Serving() }, func(n *status.Node) { n.NotServing("refused") }, func(n *status.Node) { n.NotServing("timeout") }},
			contract.StateRunning,
			agent.Readiness{Reason: agent.ReasonUnresponsive, WaitingFor: []string{"timeout"}},
		},
		"it is asked to stop, and still answers": {
			[]func(*status.Node){start, func(n *status.Node) { n.Serving() }, (*status.Node).Stopping, func(n *status.Node) { n.Serving() }},
			contract.StateControlledStop,
			agent.Readiness{Reason: agent.ReasonStopping},
		},
		"it has ended": {
			[]func(*status.Node){start, (*status.Node).Ended}, contract.StateNotRunning, agent.Readiness{Reason: agent.ReasonStopping},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n status.Node
			for _, step := range c.steps {
				step(&n)
			}
			if got := n.BrokerState().State; got != c.state {
				t.Errorf("state %d, want %d", got, c.state)
			}
			if diff := cmp.Diff(c.readiness, n.Readiness()); diff != "" {
				t.Errorf("readiness (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyNewsIsNews(t *testing.T) {
	t.Parallel()
	var n status.Node
	steps := []struct {
		name string
		got  bool
		want bool
	}{
		{"a first thing to wait for", n.Waiting(agent.ReasonWaitingForMounts, []string{"a"}), true},
		{"the same thing", n.Waiting(agent.ReasonWaitingForMounts, []string{"a"}), false},
		{"another thing", n.Waiting(agent.ReasonWaitingForMounts, []string{"b"}), true},
		{"serving", n.Serving(), true},
		{"still serving", n.Serving(), false},
		{"serving no more", n.NotServing("x"), true},
		{"still not serving", n.NotServing("x"), false},
	}
	for _, s := range steps {
		if s.got != s.want {
			t.Errorf("%s: news = %t, want %t", s.name, s.got, s.want)
		}
	}
}

func TestReportIsACopy(t *testing.T) {
	t.Parallel()
	var n status.Node
	n.Started(4, time.Time{}, map[publication.Role]publication.RoleReport{"tls-9093": {Presents: "aa"}})
	n.TLS().Roles[publication.AgentRole] = publication.RoleReport{}
	if got := n.TLS(); len(got.Roles) != 1 || got.Revision != 4 {
		t.Errorf("report %+v, want revision 4 with one role", got)
	}
}

func TestReportFollowsReloads(t *testing.T) {
	t.Parallel()
	var n status.Node
	n.Started(4, time.Time{}, map[publication.Role]publication.RoleReport{"tls-9093": {Presents: "aa"}, "mtls-9094": {Presents: "aa"}})
	n.Loaded(map[publication.Role]*publication.RoleReport{"tls-9093": {Presents: "bb"}, "mtls-9094": nil})
	n.Complete(6)
	n.Complete(5)
	n.Reloaded(publication.ReloadReport{Revision: 7, Failure: "refused"})
	want := publication.Report{
		Revision: 6, Reload: publication.ReloadReport{Revision: 7, Failure: "refused"},
		Roles:   map[publication.Role]publication.RoleReport{"tls-9093": {Presents: "bb"}},
		Unknown: []publication.Role{"mtls-9094"},
	}
	if diff := cmp.Diff(want, n.TLS()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	n.Ended()
	if got := n.TLS().Revision; got != 0 {
		t.Errorf("revision %d after the end, want 0", got)
	}
}
