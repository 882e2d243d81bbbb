package controller

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
)

// testimony is what the agent of one pod said, or that it said nothing.
type testimony struct {
	known  bool
	report publication.Report
	// since is when it first said so, or when it fell silent.
	since time.Time
	// containers are those that were running then.
	containers string
	// kafka is the resource that the pod belongs to.
	kafka types.UID
	// unreadable is why an answer that came counts as silence; empty when none came.
	unreadable string
}

// sinceGiven is since when the pod has been as it is in the face of what is published to
// it: since that was published, if the pod has not mounted it, however often the operator
// was restarted in between; and not before, because an answer is no delay until then.
// Silence is a delay whatever is published. A publication that is still to come was made
// by a clock that has been set back.
func (t *testimony) sinceGiven(published publication.Publication, now time.Time) time.Time {
	if !t.known || published.PublishedAt.IsZero() || published.PublishedAt.After(now) {
		return t.since
	}
	lags := t.report.Mounted != nil && t.report.Mounted.Revision != published.Revision
	if lags || published.PublishedAt.After(t.since) {
		return published.PublishedAt
	}
	return t.since
}

// sinceLeaving is since when the end of a pod that is being removed is overdue, if it has been
// as it is since then. While a pod may take its time to end an answer is no delay.
func (t *testimony) sinceLeaving(pod *corev1.Pod, since, now time.Time) time.Time {
	if !t.known {
		return since
	}
	end := now
	if pod != nil && pod.DeletionTimestamp != nil && pod.DeletionTimestamp.Time.Before(now) {
		end = pod.DeletionTimestamp.Time
	}
	if end.After(since) {
		return end
	}
	return since
}

// witnesses remembers what agents have said. What a server has loaded holds until
// its container is another one or something else is published to it; asking again
// before that would ask the same thing twice.
type witnesses struct {
	mu   sync.Mutex
	said map[types.UID]testimony
}

func newWitnesses() *witnesses { return &witnesses{said: map[types.UID]testimony{}} }

// recall returns what the present containers of the pod are known to have loaded.
func (w *witnesses) recall(pod *corev1.Pod) (testimony, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said, found := w.said[pod.UID]
	return said, found && said.known && said.containers == containersOf(pod)
}

// record remembers what the pod's agent says now, or that it says nothing, and
// since when it has been the same. A beginning that is still to come is that of a clock
// which has been set back: it is now.
func (w *witnesses) record(pod *corev1.Pod, said testimony) testimony {
	w.mu.Lock()
	defer w.mu.Unlock()
	said.containers = containersOf(pod)
	if before, found := w.said[pod.UID]; found && before.known == said.known && reflect.DeepEqual(before.report, said.report) && before.since.Before(said.since) {
		said.since = before.since
	}
	w.said[pod.UID] = said
	return said
}

// forget drops a pod that is gone.
func (w *witnesses) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.said, uid)
}

// keep drops all pods of the Kafka but those that there are.
func (w *witnesses) keep(kafka types.UID, pods map[types.UID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.said, func(pod types.UID, said testimony) bool { return said.kafka == kafka && !pods[pod] })
}

// forgetCluster drops the pods of a Kafka that is gone.
func (w *witnesses) forgetCluster(kafka types.UID) { w.keep(kafka, nil) }

func containersOf(pod *corev1.Pod) string {
	ids := make([]string, 0, len(pod.Status.ContainerStatuses))
	for i := range pod.Status.ContainerStatuses {
		ids = append(ids, pod.Status.ContainerStatuses[i].ContainerID)
	}
	return strings.Join(ids, ";")
}

// inquiry is what the pods of which it is not known, or may have changed, are asked
// about their stores, and what they say to it.
type inquiry struct {
	pods      []*corev1.Pod
	answers   []testimony
	questions []question
}

// errUnheard says that there was no time, or no place, to ask what a decision depends on: what is
// left of an authority that was lost, or whether brokers would start. Nothing is decided then.
var errUnheard = errors.New("not everything could be asked that the decision depends on")

// hear collects what the server of each pod has loaded, asking those of which it
// is not known or may have changed. An agent that does not answer has said nothing. What
// nodes hold may be all that is left of an authority: then all of them are asked, and it
// fails with errUnheard if they are not.
func (r *Reconciler) hear(ctx context.Context, p *pass) error {
	of := worthwhile
	if p.lostTrust() {
		of = everybody
	}
	about := r.inquire(p)
	became := r.put(ctx, p, of, about.questions)
	r.take(p, about, became)
	if of == everybody && became.spared() {
		return errUnheard
	}
	return nil
}

// inquire takes for heard what pods have said last, and asks the others.
func (r *Reconciler) inquire(p *pass) *inquiry {
	p.heard, p.silent = make(map[string]testimony, len(p.pods)), nil
	r.witnesses.keep(p.kafka.UID, p.peerIDs())
	r.asking.keep(p.kafka.UID, p.mayBeAsked)
	return r.aboutStores(p, r.remember(p))
}

// take takes over what pods have said to an inquiry.
func (r *Reconciler) take(p *pass, about *inquiry, fates []fate) {
	for i, pod := range about.pods {
		said := about.answers[i]
		before, known := r.witnesses.recall(pod)
		p.heard[pod.Name] = r.witnesses.record(pod, said)
		if known && said.known && before.report.Revision < said.report.Revision {
			r.records.Reloaded(p.kafka.UID, p.now.Sub(p.publishedTo(pod.Name).PublishedAt))
		}
		if !said.known && fates[i] != unasked && podOf(pod).State == rollout.Ready {
			p.silent = append(p.silent, pod.Name)
		}
	}
	slices.Sort(p.silent)
}

// peerIDs are the pods that may have been heard.
func (p *pass) peerIDs() map[types.UID]bool {
	ids := map[types.UID]bool{}
	for _, pod := range p.peers() {
		ids[pod.UID] = true
	}
	return ids
}

// remember takes what pods have said last for heard, and returns those that have to be
// asked again: by what they said they are recognised then.
func (r *Reconciler) remember(p *pass) []*corev1.Pod {
	var unsettled []*corev1.Pod
	for name, pod := range p.peers() {
		said, known := r.witnesses.recall(pod)
		settled := known && p.settled(name, said.report)
		if pod.Status.PodIP == "" && !settled {
			continue
		}
		if known {
			p.heard[name] = said
		}
		if !settled {
			unsettled = append(unsettled, pod)
		}
	}
	return unsettled
}

// aboutStores asks the agents of the pods what their servers have loaded. Who is not
// asked, or does not answer, has said nothing.
func (r *Reconciler) aboutStores(p *pass, pods []*corev1.Pod) *inquiry {
	about := &inquiry{pods: pods, answers: make([]testimony, len(pods))}
	if len(pods) == 0 {
		return about
	}
	if len(p.clusterCA.Snapshot.Anchors) == 0 {
		p.decideTrust() // whom to accept follows from what is known without asking
	}
	agents, leaves := r.options.Connector.Agents(p.access()), p.leavesByHost()
	for i, pod := range pods {
		nothing := testimony{since: p.now, kafka: p.kafka.UID}
		about.answers[i] = nothing
		about.questions = append(about.questions, agentQuestion(pod, func(ctx context.Context) error {
			report, err := agents.TLS(ctx, p.addressOf(pod, leaves))
			answer := nothing
			answer.known, answer.report = err == nil, report
			if long, is := errors.AsType[*client.TooLongError](err); is {
				answer.unreadable = long.Error()
			}
			about.answers[i] = answer
			return err
		}))
	}
	return about
}

// builtinRoles are those that every node may have besides the listeners of clients: two
// listeners, the Raft client and the agent.
const builtinRoles = 4

// rolesOf is how many roles a node of the pod has at most, by what is configured now or
// by what its server was started with.
func (p *pass) rolesOf(pod *corev1.Pod) int {
	return max(len(p.cluster.Listeners), len(pinOf(pod).Trust)) + builtinRoles
}

// settled reports whether a pod is known to run on what its Secret publishes, so
// that nothing can change in its report unless its container does.
func (p *pass) settled(pod string, report publication.Report) bool {
	published := p.publishedTo(pod)
	if len(report.Loading) > 0 || report.Revision == 0 || report.Mounted == nil || report.Mounted.Revision != published.Revision {
		return false
	}
	if _, is := p.companionOf(pod); is {
		return len(rollout.LoadReasons(published, companion.Stores(), report)) == 0
	}
	i := slices.IndexFunc(p.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
	if i < 0 {
		return true // it is leaving: nothing is published to it any more
	}
	return !deleting(published, report) && len(rollout.LoadReasons(published, p.listening(p.cluster.Nodes[i]), report)) == 0
}

// deleting reports whether the agent may still be about to delete the settings of
// earlier reloads. Once it has dealt with the publication, those that are left stay
// until the server is restarted.
func deleting(published publication.Publication, report publication.Report) bool {
	return published.Loading == publication.LoadByRestart && hasDynamic(report) && report.Reload.Revision != published.Revision
}

// hasDynamic reports whether settings of a reload stand in a server's metadata.
func hasDynamic(report publication.Report) bool {
	for _, role := range report.Roles {
		if role.Dynamic {
			return true
		}
	}
	return false
}

// listening are the stores of a node that a running server can be told to load: a
// node that is no controller has the one of the control plane for its Raft client.
func (p *pass) listening(node model.Node) []publication.Store {
	return slices.DeleteFunc(p.cluster.Stores(node), func(s publication.Store) bool {
		return s.Role == contract.ControlPlaneListener && !node.Roles.Controller
	})
}
