package status

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Node is the state of one node. The zero value is a node whose server is not
// started. It is safe for concurrent use.
type Node struct {
	mu        sync.Mutex
	report    publication.Report
	readiness agent.Readiness
	stopping  bool
}

// Waiting records why the server is not started yet, and reports whether that is
// news.
func (n *Node) Waiting(reason string, missing []string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.readiness.Reason != reason || !slices.Equal(n.readiness.WaitingFor, missing)
	n.readiness = agent.Readiness{Reason: reason, WaitingFor: slices.Clone(missing)}
	return news
}

// Started records what the server was started with.
func (n *Node) Started(revision int64, at time.Time, roles map[publication.Role]publication.RoleReport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report = publication.Report{Revision: revision, StartedAt: at, Roles: map[publication.Role]publication.RoleReport{}}
	maps.Copy(n.report.Roles, roles)
	n.readiness = agent.Readiness{Reason: agent.ReasonStarting}
	n.stopping = false
}

// Loaded records what the running server has loaded now. Roles that are not known
// any more are taken out: nil stands for them.
func (n *Node) Loaded(roles map[publication.Role]*publication.RoleReport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for listener, role := range roles {
		n.report.Unknown = slices.DeleteFunc(n.report.Unknown, func(l publication.Role) bool { return l == listener })
		if role == nil {
			delete(n.report.Roles, listener)
			n.report.Unknown = append(n.report.Unknown, listener)
		} else {
			n.report.Roles[listener] = *role
		}
	}
	slices.Sort(n.report.Unknown)
}

// Loading records what the server may come to run on, because it was told to.
func (n *Node) Loading(publications []publication.Publication) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report.Loading = slices.Clone(publications)
}

// Complete records the publication whose stores are loaded completely.
func (n *Node) Complete(revision int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report.Revision = max(n.report.Revision, revision)
}

// Reloaded records what became of a reload.
func (n *Node) Reloaded(report publication.ReloadReport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report.Reload = report
}

// Serving records that the server serves, and reports whether that is news.
func (n *Node) Serving() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping || n.readiness.Ready {
		return false
	}
	n.readiness = agent.Readiness{Ready: true}
	return true
}

// NotServing records that the server does not serve, with the reason in words,
// and reports whether it did until now.
func (n *Node) NotServing(because string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping {
		return false
	}
	was := n.readiness.Ready
	reason := agent.ReasonStarting
	if was || n.readiness.Reason == agent.ReasonUnresponsive {
		reason = agent.ReasonUnresponsive
	}
	n.readiness = agent.Readiness{Reason: reason, WaitingFor: []string{because}}
	return was
}

// Stopping records that the server was asked to stop. It is not ready from now
// on, whatever it still answers.
func (n *Node) Stopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.readiness = agent.Readiness{Reason: agent.ReasonStopping}
}

// Ended records that there is no server any more: nothing is loaded.
func (n *Node) Ended() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.report = publication.Report{Roles: map[publication.Role]publication.RoleReport{}}
	n.readiness = agent.Readiness{Reason: agent.ReasonStopping}
}

// TLS returns what the running server has loaded.
func (n *Node) TLS() publication.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	report := n.report
	report.Roles = map[publication.Role]publication.RoleReport{}
	maps.Copy(report.Roles, n.report.Roles)
	report.Unknown = slices.Clone(n.report.Unknown)
	return report
}

// Readiness returns whether the server serves.
func (n *Node) Readiness() agent.Readiness {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.readiness
}
