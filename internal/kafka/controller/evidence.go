package controller

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/rollout"
)

// evidence is what the agent of one pod said, or that it said nothing.
type evidence struct {
	known  bool
	report contract.TLSReport
}

// witnesses remembers what running servers have loaded. A server loads its
// stores when it starts, so what its agent said holds until the container is
// another one; asking again would ask the same thing twice.
type witnesses struct {
	mu   sync.Mutex
	said map[types.UID]testimony
}

type testimony struct {
	containers string
	report     contract.TLSReport
}

func newWitnesses() *witnesses { return &witnesses{said: map[types.UID]testimony{}} }

// recall returns what the present container of the pod is known to have loaded.
func (w *witnesses) recall(pod *corev1.Pod) (contract.TLSReport, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said, found := w.said[pod.UID]
	if !found || said.containers != containersOf(pod) {
		return contract.TLSReport{}, false
	}
	return said.report, true
}

// record remembers a report of a server that has started.
func (w *witnesses) record(pod *corev1.Pod, report contract.TLSReport) {
	if report.Revision == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[pod.UID] = testimony{containers: containersOf(pod), report: report}
}

// forget drops pods that are gone.
func (w *witnesses) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.said, uid)
}

func containersOf(pod *corev1.Pod) string {
	ids := make([]string, 0, len(pod.Status.ContainerStatuses))
	for i := range pod.Status.ContainerStatuses {
		ids = append(ids, pod.Status.ContainerStatuses[i].ContainerID)
	}
	return strings.Join(ids, ";")
}

// hear collects what each ready pod has loaded, asking those whose answer is not
// known yet. A pod that does not answer has said nothing.
func (r *Reconciler) hear(ctx context.Context, p *pass) {
	p.heard, p.silent = make(map[string]evidence, len(p.pods)), nil
	var agents Agents
	for name := range p.pods {
		pod := p.pods[name]
		if podOf(pod).State != rollout.Ready || pod.Status.PodIP == "" {
			continue
		}
		if report, known := r.witnesses.recall(pod); known {
			p.heard[name] = evidence{known: true, report: report}
			continue
		}
		if agents == nil {
			agents = r.options.Connector.Agents(p.access())
		}
		report, err := agents.TLS(ctx, agentOf(p.cluster.Names, pod, p.leavesByHost()))
		if err != nil {
			p.silent = append(p.silent, name)
			continue
		}
		r.witnesses.record(pod, report)
		p.heard[name] = evidence{known: report.Revision > 0, report: report}
	}
	slices.Sort(p.silent)
}
