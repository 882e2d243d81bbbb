package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
)

// retryDelay is the delay before the next reconcile of a rollout that waits for Kafka.
// Kubernetes sends events for its objects, but Kafka sends none when a replica has caught up.
const retryDelay = time.Second

// outcome is what the acting part of a reconcile came to.
type outcome struct {
	// blockers are who stands in the way of what is still to be done.
	blockers []rollout.Blocker
	// pending are the nodes that are still to be restarted or removed.
	pending []string
	// disrupted is the pod that is being restarted.
	disrupted string
	// version is that of Kafka once all nodes run it, and metadata what they have agreed on then; empty while that is not known.
	version  string
	metadata release.MetadataVersion
	// again asks for another look after this long; zero means not by time.
	again time.Duration
}

// act does at most one disruptive thing: it asks the rollout planner with facts
// that are new, records what it is going to do, and only then does it.
func (r *Reconciler) act(ctx context.Context, c *applied) (outcome, error) {
	reasons, err := c.reasons()
	if err != nil {
		return outcome{}, err
	}
	if !c.somethingToDo(reasons) {
		return r.watching(c), nil
	}
	seen, err := r.gather(ctx, c)
	if err != nil {
		return outcome{}, err
	}
	decided := seen.decide()
	result := outcome{
		blockers: decided.Blockers, pending: pendingNodes(seen.snapshot), again: retryDelay,
		disrupted: disrupted(seen.snapshot, decided),
	}
	if decided.Act == nil {
		result.again = untilNextAct(c.decided, decided, seen.asked.again)
	}
	if !seen.asked.isFresh {
		return result, nil
	}
	switch err := r.executeDisruption(ctx, c, seen, decided); {
	case errors.Is(err, errUnpolled):
		result.disrupted, result.again = disrupted(seen.snapshot, rollout.Decision{}), seen.asked.again
		return result, nil
	case err != nil:
		return outcome{}, err
	default:
		return result, nil
	}
}

// untilNextAct is how soon a rollout that does nothing now is looked at again: pods that
// terminate or are created are watched.
func untilNextAct(c *decided, decided rollout.Decision, soon time.Duration) time.Duration {
	if decided.AwaitsPods() && !c.loadsAwaited() {
		return kube.Unwatched
	}
	return soon
}

// rolloutInput is what a disruption is decided from.
type rolloutInput struct {
	snapshot rollout.Snapshot
	record   disruptionRecord
	asked    surveyed
}

// decide asks the rollout planner. From answers that are not fresh only blockers follow, and from unknown ones nothing.
func (s rolloutInput) decide() rollout.Decision {
	if !s.asked.isKnown {
		return rollout.Decision{}
	}
	decided := rollout.Decide(s.snapshot)
	if !s.asked.isFresh {
		decided.Act, decided.Settled = nil, false
	}
	return decided
}

// watching is the outcome of a reconcile with nothing to disrupt. The next one follows soon while nodes are to load
// something. It follows late while only a person can help, or an object not owned by the cluster has to be deleted.
func (r *Reconciler) watching(c *applied) outcome {
	switch {
	case c.hasWritten:
		return outcome{again: retryDelay}
	case c.occupied != nil:
		return outcome{again: kube.Unwatched}
	case c.loadsAwaited() && len(c.silent) > 0:
		return outcome{again: longestWait} // before that when one reports something else
	case c.loadsAwaited():
		return outcome{again: retryDelay}
	case len(blockedBy(c.decided)) > 0:
		return outcome{again: kube.Unwatched}
	default:
		return outcome{}
	}
}

// disrupted is the pod that is being restarted on purpose, if any. One that is
// stuck, or takes longer than any restart does, is not being restarted any more:
// it has failed.
func disrupted(s rollout.Snapshot, decided rollout.Decision) string {
	if decided.Act != nil {
		return decided.Act.PodName
	}
	if s.Disruption == nil || decided.Settled {
		return ""
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.ID == s.Disruption.Node && n.Pod.State != rollout.Stuck && s.Now.Sub(s.Disruption.Since) <= rollout.StartGrace {
			return n.PodName
		}
	}
	return ""
}

// somethingToDo reports whether the rollout planner is needed: a pod has a reason to
// restart, a node is to be removed, or a recorded disruption is not known to be over.
// In the steady state the operator therefore sends no queries to nodes.
func (c *desired) somethingToDo(reasons map[string][]rollout.Reason) bool {
	for _, list := range reasons {
		if len(list) > 0 {
			return true
		}
	}
	return len(c.cluster.Leaving) > 0 || !c.isUndisrupted()
}

// isUndisrupted reports whether the disruption record, as the cache shows it, is
// one that is known to record nothing, or there is none.
func (c *desired) isUndisrupted() bool {
	record, exists := c.objects[disruptionObject(c.kafka.Name)]
	if !exists {
		return c.undisrupted
	}
	return c.memory.noDisruption == record.ResourceVersion
}

// executeDisruption records the act before it is done. The record is replaced in one
// write; an act that is recorded already is only done.
func (r *Reconciler) executeDisruption(ctx context.Context, c *applied, seen rolloutInput, decided rollout.Decision) error {
	act, record := decided.Act, seen.record
	if act == nil {
		if decided.Settled || record.Disruption == nil {
			return r.recordUndisrupted(ctx, c.decided, seen)
		}
		return nil
	}
	if err := r.checkPodSet(ctx, c, act); err != nil {
		return err
	}
	if err := r.forgetRemoved(ctx, c.decided, seen); err != nil {
		return err
	}
	if record.Disruption == nil || record.Disruption.UID != act.UID {
		if err := r.writeDisruption(ctx, c.desired, record, recordOf(act, c.now)); err != nil {
			return err
		}
	}
	return r.disrupt(ctx, c.desired, act)
}

// disrupt deletes the pod of an act, and that pod only.
func (r *Reconciler) disrupt(ctx context.Context, c *desired, act *rollout.Act) error {
	pod, found := c.pods[act.PodName]
	if !found || rollout.UID(pod.UID) != act.UID {
		return nil
	}
	if act.Kind == rollout.Remove && c.describes(act.PodName) {
		// The pod set still describes the pod and would make it again. The record
		// makes the next reconcile leave it out; the pod goes in the one after.
		return nil
	}
	if err := kube.Delete(ctx, r.options.Client, pod); err != nil {
		return fmt.Errorf("restarting a node of Kafka %s/%s: %w", c.kafka.Namespace, c.kafka.Name, err)
	}
	r.events.podDisrupted(&c.kafka, pod, act)
	return nil
}

// recordUndisrupted writes down that no disruption is in progress, once.
func (r *Reconciler) recordUndisrupted(ctx context.Context, c *decided, seen rolloutInput) error {
	record := seen.record
	if record.Disruption != nil {
		if err := r.forgetRemoved(ctx, c, seen); err != nil {
			return err
		}
		if record.Kind == rollout.Restart {
			r.records.Restarted(c.kafka.UID, c.now.Sub(record.Disruption.Since))
		}
		return r.writeDisruption(ctx, c.desired, record, disruptionRecord{})
	}
	c.memory.noDisruption = record.resourceVersion
	return nil
}

// describes reports whether a pod set that was just applied has the pod.
func (c *desired) describes(pod string) bool {
	return slices.ContainsFunc(c.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
}

// reasons says, for each pod that exists, what it is to be restarted for: what
// its annotations tell of its shape, and what its agent tells of its stores, where
// a reload does not do. A pod whose agent is silent is asked again by the
// planner's own gates. A degraded cluster is only restarted for what ends: its pods
// come back as they were described last.
func (c *applied) reasons() (map[string][]rollout.Reason, error) {
	reasons := map[string][]rollout.Reason{}
	for _, node := range c.cluster.Nodes {
		pod, exists := c.pods[node.Pod]
		certificates, issued := c.nodes[node.Pod]
		if !exists || !issued || !c.comesBack(node) {
			continue
		}
		if c.isDegraded() {
			reasons[node.Pod] = c.trustReasons(node, c.ends)
			continue
		}
		desired, err := c.podOf(node, certificates)
		if err != nil {
			return nil, err
		}
		var list []rollout.Reason
		if !c.retired(node) {
			list = append(model.Reasons(pod.Annotations, desired.Annotations), c.cluster.PullReasons(node, pod)...)
		}
		if _, readable := pinnedRevision(pod); !readable {
			// Its agent could not start the server again.
			list = append(list, rollout.Reason{
				Code: rollout.PodSpecChanged, Note: "annotation " + agent.PinAnnotation + " cannot be read",
			})
		}
		list = append(list, c.growthReasons(node, pod)...)
		reasons[node.Pod] = append(list, c.loadReasons(node, certificates.publication)...)
	}
	return reasons, nil
}

// gather reads everything a disruption is decided from, past the cache, and what the cluster has said to a survey.
func (r *Reconciler) gather(ctx context.Context, c *applied) (rolloutInput, error) {
	record, err := r.readDisruption(ctx, c.observation)
	if err != nil {
		return rolloutInput{}, err
	}
	if err := r.readPods(ctx, c.observation, r.livePods); err != nil {
		return rolloutInput{}, err
	}
	r.takeReports(c.polled)
	answers := r.surveyOf(c.observation, r.aboutDisruption(c.decided)...)
	reasons, err := r.freshReasons(ctx, c)
	if err != nil {
		return rolloutInput{}, err
	}
	snapshot := rollout.Snapshot{
		Now:        c.now,
		Disruption: record.planned(),
		Quorum:     answers.Quorum,
		Partitions: answers.Partitions,
	}
	for _, node := range c.allNodes() {
		if _, issued := c.nodes[node.Pod]; !issued && !c.exists(node) {
			continue // it waits for its first certificate, and the rollout does not wait for it
		}
		entry := rollout.Node{
			ID: rollout.NodeID(node.ID), PodName: node.Pod, Pool: node.Pool,
			Controller: node.Roles.Controller, Broker: node.Roles.Broker,
			Pod: c.rolled(node.Pod), Reasons: reasons[node.Pod], Removal: c.removalOf(node),
		}
		if isUp(entry.Pod.State) {
			entry.Server = answers.Servers[node.Pod]
		}
		snapshot.Nodes = append(snapshot.Nodes, entry)
	}
	return rolloutInput{snapshot, record, answers}, nil
}

// freshReasons says again why pods are to be restarted, from what is written now and
// what has just been reported. It fails with errOvertaken when the reconcile has to start over
// for that.
func (r *Reconciler) freshReasons(ctx context.Context, c *applied) (map[string][]rollout.Reason, error) {
	if err := r.checkResources(ctx, c.observation); err != nil {
		return nil, err
	}
	if err := r.checkSecrets(ctx, c.observation); err != nil {
		return nil, err
	}
	if err := c.decideTrustAgain(); err != nil {
		return nil, err
	}
	return c.reasons()
}

// pendingNodes names the pods for which something is still to be done.
func pendingNodes(s rollout.Snapshot) []string {
	var names []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if len(n.Reasons) > 0 || n.Removal != rollout.Keep || n.Pod.State != rollout.Ready {
			names = append(names, n.PodName)
		}
	}
	return names
}
