package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// restartsDue are the members whose etcd is to be started again under what is mounted, and those that are known to have loaded that.
func (p *pass) restartsDue() (due map[string]membership.Due, loaded map[string]bool) {
	due, loaded = map[string]membership.Due{}, map[string]bool{}
	restarts, latest := p.authorities.decided.Restarts(p.now), p.poller.Latest(p.cluster.Names.NamespacedName())
	for name, pod := range p.pods {
		report := latest[pod.UID].Answer
		i := slices.IndexFunc(restarts, func(restart domains.Restart) bool { return restart.Member == name })
		switch {
		case i < 0:
			loaded[name] = report != nil || p.cluster.Names.Mode != model.Dynamic
		case report != nil && report.Mounted != nil:
			due[name] = membership.Due{Revision: report.Mounted.Revision, Loaded: report.Revision, IsUrgent: restarts[i].IsUrgent}
		}
	}
	return due, loaded
}

// startsWithin is how long after an agent was asked, and its kubelet has shown it that, etcd is started again.
const startsWithin = 2 * time.Minute

// isSilent reports whether an agent that was asked does not tell what its etcd has loaded, and not for so long that the start is over.
// One that cannot be polled is silent since it was asked.
func (p *pass) isSilent(pod *corev1.Pod) bool {
	asked := p.askedRevision(pod)
	if asked == 0 {
		return false
	}
	report, isPolled := p.poller.Latest(p.cluster.Names.NamespacedName())[pod.UID]
	if isPolled {
		return report.Answer == nil && p.now.Sub(report.Since) < startsWithin
	}
	return p.now.Sub(p.memory.askedSince(pod.Name, asked, p.now)) < startsWithin
}

// isOverdue reports whether a pod whose etcd is due should have been started again by now.
func (p *pass) isOverdue(pod *corev1.Pod, due membership.Due) bool {
	asked := p.askedRevision(pod)
	return due.Revision > 0 && asked > due.Loaded && p.now.Sub(p.memory.askedSince(pod.Name, asked, p.now)) >= startsWithin
}

// askedRevision is the revision that a pod has been asked to start etcd again for; 0 when never. Others ask for a revision that was not
// published yet, and in a cluster whose CAs do not turn.
func (p *pass) askedRevision(pod *corev1.Pod) int64 {
	if p.cluster.Names.Mode != model.Dynamic {
		return 0
	}
	revision, err := strconv.ParseInt(pod.Annotations[contract.RestartAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	if secret := p.secrets[pod.Name]; secret != nil {
		if published, err := publicationIn(secret); err == nil && published.Revision < revision {
			return 0
		}
	}
	return revision
}

// mayHaveRestarted reports whether a member may have been asked to start etcd again although that failed: without an answer of
// the API server nothing is known, and another member is not asked.
func mayHaveRestarted(act membership.Act, err error) bool {
	_, isRestart := act.(membership.Restart)
	status, isAnswered := errors.AsType[*apierrors.StatusError](err)
	return isRestart && (!isAnswered || status.Status().Code < http.StatusBadRequest || status.Status().Code >= http.StatusInternalServerError)
}

// restart has the agent of a member start etcd again in its pod.
func (p *pass) restart(ctx context.Context, act membership.Restart) error {
	pod := p.pods[act.Name]
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(types.UID(act.UID)).
		WithAnnotations(map[string]string{contract.RestartAnnotation: strconv.FormatInt(act.Revision, 10)})
	if _, err := p.memory.restarts.Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("asking pod %s to start etcd again: %w", act.Name, err)
	}
	p.memory.ask(act, p.now)
	p.wakeAt(p.now.Add(again))
	p.options.Log.Info("asked a member to start etcd again", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "member", act.Name, "revision", act.Revision)
	p.event(corev1.EventTypeNormal, "MemberRestarted", "Had etcd of member %s started again in its pod, to load changed CAs", act.Name)
	return nil
}
