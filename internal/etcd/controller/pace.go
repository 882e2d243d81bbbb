package controller

import (
	"github.com/keyturn/keyturn/internal/etcd/domains"
)

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
		if took, isDone := p.memory.restarted(member.Name, member.Report.Revision, p.now); isDone {
			p.records.Restarted(p.etcd.UID, took)
		}
	}
}
