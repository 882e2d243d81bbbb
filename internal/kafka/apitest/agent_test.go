package apitest

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// What an agent does with its server: it starts it on what is mounted, lets it
// reload what is published, and tells what it has loaded.

// server is a running server with its agent.
type server struct {
	pod string
	uid types.UID
	// container counts the containers that the pod has had; pin is the oldest
	// publication that they start on.
	container int
	pin       int64
	startedAt time.Time
	// started is what the process was started with; revision is what it has loaded
	// completely.
	started  content
	revision int64
	// loaded is what each listener runs on now; raft is what the Raft client keeps.
	loaded map[publication.Role]stores
	raft   stores
	reload publication.ReloadReport
}

// persisted says for which listeners of a node the metadata of the cluster holds
// settings of a reload. They survive the node's processes and its pods. The files
// that they name hold, after each start, what is mounted then.
type persisted map[publication.Role]bool

// starts is what each listener runs on right after a start with the content: what
// is published for it where settings are persisted. Without any, the listener for
// Raft begins with what their client is given.
func (c content) starts(p persisted) map[publication.Role]stores {
	loaded := maps.Clone(c.listeners)
	if !p[contract.ControlPlaneListener] {
		loaded[contract.ControlPlaneListener] = c.raft
	}
	return loaded
}

// begin starts a server.
func (w *world) begin(pod *corev1.Pod, container int, c content) *server {
	return &server{
		pod: pod.Name, uid: pod.UID, container: container, pin: pinOf(pod), startedAt: w.clock.Now(), started: c,
		revision: c.publication.Revision, loaded: c.starts(w.persisted[pod.Name]), raft: c.raft,
	}
}

// follow is what an agent does when it finds that something else is mounted. It
// reports whether that changed anything.
func (w *world) follow(s *server) bool {
	mounted, err := w.mounted[s.pod].content(0)
	if err != nil {
		return false
	}
	if mounted.publication.Loading == publication.LoadByRestart {
		return w.keepToStart(s, mounted)
	}
	return w.reload(s, mounted)
}

// early says which listener would come to present what is not valid yet.
func (w *world) early(s *server, mounted content) string {
	now := w.clock.Now().Add(-w.behind[s.pod])
	for _, l := range slices.Sorted(maps.Keys(mounted.listeners)) {
		wanted := mounted.listeners[l]
		loaded, runs := s.loaded[l]
		if !runs || slices.EqualFunc(loaded.chain, wanted.chain, (*x509.Certificate).Equal) {
			continue
		}
		for _, cert := range wanted.chain {
			if now.Before(cert.NotBefore) {
				return fmt.Sprintf("%s is not given what is valid from %s", l, cert.NotBefore)
			}
		}
	}
	return ""
}

// keepToStart deletes what reloads have left behind, once the process was started
// with what is mounted.
func (w *world) keepToStart(s *server, mounted content) bool {
	changed := false
	if maps.EqualFunc(s.started.listeners, mounted.listeners, stores.equal) && s.started.raft.equal(mounted.raft) {
		changed = len(w.persisted[s.pod]) > 0
		delete(w.persisted, s.pod)
		s.loaded = mounted.starts(nil)
	}
	revision := mounted.publication.Revision
	if maps.EqualFunc(s.loaded, mounted.listeners, stores.equal) && s.reload.Revision != revision {
		s.revision, s.reload, changed = revision, publication.ReloadReport{Revision: revision}, true
	}
	return changed
}

// reload loads listener after listener. A reload that was told to fail does so
// after some of them.
func (w *world) reload(s *server, mounted content) bool {
	if early := w.early(s, mounted); early != "" {
		again := s.reload.Early && s.reload.Revision == mounted.publication.Revision
		s.reload = publication.ReloadReport{Revision: mounted.publication.Revision, Early: true, Failure: early}
		return !again
	}
	behind := slices.DeleteFunc(slices.Sorted(maps.Keys(mounted.listeners)), func(l publication.Role) bool {
		loaded, runs := s.loaded[l]
		return !runs || !listens(s.started.config, l) || loaded.equal(mounted.listeners[l])
	})
	good, fails := w.failing[s.pod]
	before := s.revision
	if fails && len(behind) > 0 {
		again := s.reload.Revision == mounted.publication.Revision
		w.load(s, mounted, behind[:min(good, len(behind))])
		s.reload = publication.ReloadReport{
			Revision: mounted.publication.Revision, Refused: true,
			Failure: "the server does not accept other stores for " + string(behind[0]),
		}
		return !again
	}
	w.load(s, mounted, behind)
	s.revision = mounted.publication.Revision
	s.reload = publication.ReloadReport{Revision: s.revision}
	return len(behind) > 0 || s.revision != before
}

// load changes listeners by settings that persist.
func (w *world) load(s *server, mounted content, listeners []publication.Role) {
	for _, l := range listeners {
		s.loaded[l] = mounted.listeners[l]
		if w.persisted[s.pod] == nil {
			w.persisted[s.pod] = persisted{}
		}
		w.persisted[s.pod][l] = true
		w.trace("%s has reloaded %s", s.pod, l)
	}
}

// report is what the agent tells the operator.
func (w *world) report(s *server) publication.Report {
	v := w.mounted[s.pod]
	report := publication.Report{
		Revision: s.revision, StartedAt: s.startedAt, Reload: s.reload,
		Roles: map[publication.Role]publication.RoleReport{}, Certificates: map[string][]byte{},
	}
	show := func(role publication.Role, chain, trust []*x509.Certificate) {
		said := publication.RoleReport{Trusts: slices.Sorted(slices.Values(fingerprints(trust))), Dynamic: w.persisted[s.pod][role]}
		if len(chain) > 0 {
			said.Presents, said.Chain, said.NotAfter = fingerprint(chain[0]), fingerprints(chain[1:]), firstEnd(chain).UTC()
		}
		for _, cert := range slices.Concat(chain, trust) {
			report.Certificates[fingerprint(cert)] = cert.Raw
		}
		report.Roles[role] = said
	}
	for listener, loaded := range s.loaded {
		show(listener, loaded.chain, loaded.trust)
	}
	agent := v.agent()
	show(contract.RaftRole, s.raft.chain, s.raft.trust)
	show(publication.AgentRole, agent.chain, agent.trust)
	if mounted, err := v.content(0); err == nil {
		report.Mounted = &mounted.publication
		for _, loadable := range mounted.listeners {
			for _, cert := range loadable.chain {
				report.Certificates[fingerprint(cert)] = cert.Raw
			}
		}
	}
	return report
}

func (s *server) containerID() string { return fmt.Sprintf("test://%s/%d", s.uid, s.container) }
