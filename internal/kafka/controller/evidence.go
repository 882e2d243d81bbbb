package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// agentReport is what the agent of one pod has reported, or that it has reported nothing.
type agentReport struct {
	known  bool
	report publication.Report
	// last is what it has reported last, even if it is silent now. It tells which certificates there are, not what is loaded.
	last publication.Report
	// since is when it first reported so, or when it fell silent.
	since time.Time
	// life is that of the pod when it was polled, see reports.Target.
	life string
	// unreadable is why an answer that came counts as silence; empty when none came.
	unreadable string
}

// waitingSince is since when the pod has been as it is in the face of what is published to
// it: since that was published, if the pod has not mounted it, however often the operator
// was restarted in between; and not before, because an answer is no delay until then.
// Silence is a delay whatever is published. A publication that is still to come was made
// by a clock that has been set back.
func (t *agentReport) waitingSince(published publication.Publication, now time.Time) time.Time {
	if !t.known || published.PublishedAt.IsZero() || published.PublishedAt.After(now) {
		return t.since
	}
	lags := t.report.Mounted != nil && t.report.Mounted.Revision != published.Revision
	if lags || published.PublishedAt.After(t.since) {
		return published.PublishedAt
	}
	return t.since
}

// overdueSince is since when the end of a pod that is being removed is overdue, if it has been
// as it is since then. While a pod may take its time to end an answer is no delay.
func (t *agentReport) overdueSince(pod *corev1.Pod, since, now time.Time) time.Time {
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

func containersOf(pod *corev1.Pod) string {
	ids := make([]string, 0, len(pod.Status.ContainerStatuses))
	for i := range pod.Status.ContainerStatuses {
		ids = append(ids, pod.Status.ContainerStatuses[i].ContainerID)
	}
	return strings.Join(ids, ";")
}

// lifeOf changes with what makes it worthwhile to poll the agent of a pod at once.
func lifeOf(pod *corev1.Pod) string {
	return fmt.Sprintf("%s %s %t", containersOf(pod), pod.Status.PodIP, podOf(pod).State == rollout.Ready)
}

// trackAgents has the agents of pods polled from now on. It fails with errUnpolled until each was polled once since the operator was
// started, and, where nodes may hold all that is left of a CA, since that was lost. A node that runs on what is published holds
// the same as before, and may not know the operator any more.
func (r *Reconciler) trackAgents(c *decided) error {
	targets, isLost := r.targets(c), c.lostTrust()
	isUnpolled := !c.wasPolled && len(targets) > 0
	for pod, target := range targets {
		isUnpolled = isUnpolled || isLost && target.Pace != reports.Once && c.reports[pod].life != target.Life
	}
	r.agents.Track(client.ObjectKeyFromObject(&c.kafka), slices.Collect(maps.Values(targets)))
	if isUnpolled {
		return errUnpolled
	}
	return nil
}

// targets are the agents of the pods that have an address, by pod.
func (r *Reconciler) targets(c *decided) map[string]reports.Target[publication.Report] {
	pods := c.peers()
	maps.DeleteFunc(pods, func(_ string, pod *corev1.Pod) bool { return pod.Status.PodIP == "" })
	if len(pods) == 0 {
		return nil
	}
	agents, leaves := r.options.Connector.Agents(c.access()), c.leavesByHost()
	targets := make(map[string]reports.Target[publication.Report], len(pods))
	for name, pod := range pods {
		target, address := c.targetOf(pod), c.addressOf(pod, leaves)
		target.Ask = func(ctx context.Context) (*publication.Report, error) {
			report, err := agents.TLS(ctx, address)
			if err != nil {
				return nil, err
			}
			return &report, nil
		}
		targets[name] = target
	}
	return targets
}

// takeReports takes over what the agents of pods have reported last.
func (r *Reconciler) takeReports(c *polled) {
	r.findCompanions(c)
	name := client.ObjectKeyFromObject(&c.kafka)
	c.wasPolled = r.agents.WasKnown(name)
	c.reports, c.silent = make(map[string]agentReport, len(c.pods)), nil
	latest := r.agents.Latest(name)
	for _, pod := range c.peers() {
		known, isPolled := latest[pod.UID]
		c.takeReport(pod, known, isPolled)
	}
	slices.Sort(c.silent)
	r.records.Reloaded(c.kafka.UID, lastReload(c, latest))
}

// takeReport takes over what the agent of a pod has reported, unless that was of another process.
func (c *polled) takeReport(pod *corev1.Pod, known reports.Report[publication.Report], isPolled bool) {
	reported := agentReportOf(known)
	switch {
	case !isPolled || reported.known && known.Process != containersOf(pod):
		reported = agentReport{since: c.now, last: reported.last}
		if pod.Status.PodIP == "" {
			return
		}
	case !reported.known && podOf(pod).State == rollout.Ready:
		c.silent = append(c.silent, pod.Name)
	}
	c.reports[pod.Name] = reported
}

// agentReportOf is what an agent has reported.
func agentReportOf(known reports.Report[publication.Report]) agentReport {
	reported := agentReport{since: known.Since, life: known.Life, known: known.Answer != nil}
	switch {
	case reported.known:
		reported.report, reported.last = *known.Answer, *known.Answer
	case known.Before != nil:
		reported.last = *known.Before
	}
	if long, is := errors.AsType[*agentclient.TooLongError](known.Err); is {
		reported.unreadable = long.Error()
	}
	return reported
}

// lastReload is how long the pod took to load what was published to it that has loaded something last; zero without any.
func lastReload(c *polled, latest map[types.UID]reports.Report[publication.Report]) time.Duration {
	var last time.Time
	var took time.Duration
	for _, pod := range c.peers() {
		known, published := latest[pod.UID], c.publishedTo(pod.Name)
		if known.Answer == nil || known.Before == nil || known.Answer.Revision <= known.Before.Revision || known.Answer.Revision != published.Revision {
			continue
		}
		if taken := known.Since.Sub(published.PublishedAt); known.Since.After(last) || known.Since.Equal(last) && taken > took {
			last, took = known.Since, taken
		}
	}
	return took
}

// targetOf is the agent of a pod, which is polled no more once it has reported what it is to have loaded.
func (c *polled) targetOf(pod *corev1.Pod) reports.Target[publication.Report] {
	published, reported := c.publishedTo(pod.Name), c.reports[pod.Name]
	target := reports.Target[publication.Report]{
		UID: pod.UID, Process: containersOf(pod), Life: fmt.Sprintf("%s %d %t", lifeOf(pod), published.Revision, c.lostTrust()), Pace: reports.Steadily,
	}
	switch {
	case reported.known && c.settled(pod.Name, reported.report):
		target.Pace = reports.Once
	case reported.known && reported.report.Reload.Failure != "" && reported.report.Reload.Revision == published.Revision:
		target.Pace = reports.Slower
	}
	return target
}

// builtinRoles are those that every node may have besides the listeners of clients: two
// listeners, the Raft client and the agent.
const builtinRoles = 4

// rolesOf is how many roles a node of the pod has at most, by what is configured now or
// by what its server was started with.
func (c *desired) rolesOf(pod *corev1.Pod) int {
	return max(len(c.cluster.Listeners), len(pinOf(pod).Trust)) + builtinRoles
}

// settled reports whether a pod is known to run on what its Secret publishes, so
// that nothing can change in its report unless its container does.
func (c *polled) settled(pod string, report publication.Report) bool {
	published := c.publishedTo(pod)
	if len(report.Loading) > 0 || report.Revision == 0 || report.Mounted == nil || report.Mounted.Revision != published.Revision {
		return false
	}
	if _, is := c.companionOf(pod); is {
		return len(rollout.LoadReasons(published, companion.Stores(), report)) == 0
	}
	i := slices.IndexFunc(c.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
	if i < 0 {
		return true // it is leaving: nothing is published to it any more
	}
	return !deleting(published, report) && len(rollout.LoadReasons(published, c.listening(c.cluster.Nodes[i]), report)) == 0
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
func (c *desired) listening(node model.Node) []publication.Store {
	return slices.DeleteFunc(c.cluster.Stores(node), func(s publication.Store) bool {
		return s.Role == contract.ControlPlaneListener && !node.Roles.Controller
	})
}
