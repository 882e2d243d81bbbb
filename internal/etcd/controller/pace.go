package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// restarts remembers when members were asked to start etcd again, by clusters and members.
type restarts struct {
	mu    sync.Mutex
	asked map[types.UID]map[string]asked
}

type asked struct {
	revision int64
	at       time.Time
}

func newRestarts() *restarts { return &restarts{asked: map[types.UID]map[string]asked{}} }

func (r *restarts) ask(cluster types.UID, act membership.Restart, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked[cluster] == nil {
		r.asked[cluster] = map[string]asked{}
	}
	r.asked[cluster][act.Name] = asked{act.Revision, now}
}

// done is how long a member took, once it has loaded what it was asked for.
func (r *restarts) done(cluster types.UID, member string, loaded int64, now time.Time) (took time.Duration, isDone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, isAsked := r.asked[cluster][member]
	if !isAsked || loaded < last.revision {
		return 0, false
	}
	delete(r.asked[cluster], member)
	return now.Sub(last.at), true
}

func (r *restarts) forget(cluster types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, cluster)
}

// measure remembers how long members took to mount what was published to them, and to start etcd again. What an operator before
// this one has published tells nothing.
func (p *pass) measure(seen *domains.Seen) {
	before := p.records.Of(p.etcd.UID)
	for i := range seen.Members {
		member := &seen.Members[i]
		if took, isNew := member.MountedAfter(before, p.now); isNew && !p.isRecalled {
			p.records.Reloaded(p.etcd.UID, took)
		}
		if pod := p.pods[member.Name]; pod == nil || !isReady(pod) {
			continue
		}
		if took, isDone := p.restarts.done(p.etcd.UID, member.Name, member.Report.Revision, p.now); isDone {
			p.records.Restarted(p.etcd.UID, took)
		}
	}
}
