package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/rollout"
)

// lookAgain is how soon a rollout that waits for Kafka is looked at again. What
// Kubernetes tells comes as an event; when a replica has caught up, nobody calls.
const lookAgain = time.Second

// askAgain is how soon a silent agent is asked again while nothing else goes on.
const askAgain = 5 * time.Second

// quorumFetchTimeout is the default of controller.quorum.fetch.timeout.ms: how
// far behind the leader a voter may be and still count as caught up.
const quorumFetchTimeout = 2 * time.Second

// outcome is what the acting part of a pass came to.
type outcome struct {
	// blockers are who stands in the way of what is still to be done.
	blockers []rollout.Blocker
	// pending are the nodes that are still to be restarted or removed.
	pending []string
	// disrupted is the pod that is being restarted.
	disrupted string
	// again asks for another look after this long; zero means not by time.
	again time.Duration
}

// act does at most one disruptive thing: it asks the rollout planner with facts
// that are read now, records what it is going to do, and only then does it.
func (r *Reconciler) act(ctx context.Context, p *pass) (outcome, error) {
	reasons, err := p.reasons()
	if err != nil {
		return outcome{}, err
	}
	if !r.somethingToDo(p, reasons) {
		return p.watching(), nil
	}
	snapshot, record, err := r.freshSnapshot(ctx, p)
	if err != nil {
		return outcome{}, err
	}
	decided := rollout.Decide(snapshot)
	result := outcome{
		blockers: decided.Blockers, pending: pendingNodes(snapshot), again: lookAgain,
		disrupted: disrupted(snapshot, decided),
	}
	if err := r.carryOut(ctx, p, record, decided); err != nil {
		if lostRace(err) {
			// Somebody else wrote first. What they recorded is seen next time.
			return result, nil
		}
		return outcome{}, err
	}
	return result, nil
}

// watching is the outcome of a pass with nothing to disrupt: nodes that are to load
// something are looked at again soon, and so are agents that did not answer.
func (p *pass) watching() outcome {
	switch {
	case p.moved || p.loadsAwaited():
		return outcome{again: lookAgain}
	case len(p.silent) > 0:
		return outcome{again: askAgain}
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

// somethingToDo reports whether the rollout planner has to be asked: a pod has a
// reason to restart, a node is to go, or a recorded disruption is not known to be
// over. In the steady state nobody is asked anything.
func (r *Reconciler) somethingToDo(p *pass, reasons map[string][]rollout.Reason) bool {
	for _, list := range reasons {
		if len(list) > 0 {
			return true
		}
	}
	return len(p.cluster.Leaving) > 0 || !r.knownSettled(p)
}

// knownSettled reports whether the disruption record, as the cache shows it, is
// one that is known to record nothing, or there is none.
func (r *Reconciler) knownSettled(p *pass) bool {
	record, exists := p.objects[objectID{configMapKind().GroupKind(), disruptionName(p.kafka.Name)}]
	if !exists {
		return p.undisrupted
	}
	return r.settled.is(p.kafka.UID, record.ResourceVersion)
}

// carryOut records the act before it is done. The record is replaced in one
// write; an act that is recorded already is only done.
func (r *Reconciler) carryOut(ctx context.Context, p *pass, record disruptionRecord, decided rollout.Decision) error {
	act := decided.Act
	if act == nil {
		if decided.Settled || record.Disruption == nil {
			return r.settle(ctx, p, record)
		}
		return nil
	}
	if err := r.leadsThere(ctx, p, act); err != nil {
		return err
	}
	if err := r.forgetRemoved(ctx, p, record); err != nil {
		return err
	}
	if record.Disruption == nil || record.Disruption.UID != act.UID {
		if err := r.writeDisruption(ctx, p, record, recordOf(act, p.now)); err != nil {
			return err
		}
	}
	return r.disrupt(ctx, p, act)
}

// disrupt deletes the pod of an act, and that pod only.
func (r *Reconciler) disrupt(ctx context.Context, p *pass, act *rollout.Act) error {
	pod, found := p.pods[act.PodName]
	if !found || rollout.UID(pod.UID) != act.UID {
		return nil
	}
	if act.Kind == rollout.Remove && p.describes(act.PodName) {
		// The pod set still describes the pod and would make it again. The record
		// makes the next pass leave it out; the pod goes in the one after.
		return nil
	}
	if err := kube.Delete(ctx, r.options.Client, pod); err != nil {
		return fmt.Errorf("restarting a node of Kafka %s/%s: %w", p.kafka.Namespace, p.kafka.Name, err)
	}
	r.witnesses.forget(pod.UID)
	r.events.podDisrupted(&p.kafka, pod, act)
	return nil
}

// settle writes down that no disruption is in progress, once.
func (r *Reconciler) settle(ctx context.Context, p *pass, record disruptionRecord) error {
	if record.Disruption != nil {
		if err := r.forgetRemoved(ctx, p, record); err != nil {
			return err
		}
		if record.Kind == rollout.Restart {
			r.paces.restarted(p.kafka.UID, p.now.Sub(record.Disruption.Since))
		}
		return r.writeDisruption(ctx, p, record, disruptionRecord{})
	}
	r.settled.note(p.kafka.UID, record.resourceVersion)
	return nil
}

// describes reports whether a pod set that was just applied has the pod.
func (p *pass) describes(pod string) bool {
	return slices.ContainsFunc(p.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
}

// reasons says, for each pod that exists, what it is to be restarted for: what
// its annotations tell of its shape, and what its agent tells of its stores, where
// a reload does not do. A pod whose agent is silent is asked again by the
// planner's own gates. A cluster that stands is only restarted for what ends: its pods
// come back as they were described last.
func (p *pass) reasons() (map[string][]rollout.Reason, error) {
	reasons := map[string][]rollout.Reason{}
	for _, node := range p.cluster.Nodes {
		pod, exists := p.pods[node.Pod]
		certificates, issued := p.nodes[node.Pod]
		if !exists || !issued {
			continue
		}
		if p.stands() {
			reasons[node.Pod] = p.trustReasons(node, p.ends)
			continue
		}
		desired, err := p.podOf(node, certificates)
		if err != nil {
			return nil, err
		}
		var list []rollout.Reason
		if !p.retired(node) {
			list = model.Reasons(pod.Annotations, desired.Annotations)
		}
		if _, readable := pinnedRevision(pod); !readable {
			// Its agent could not start the server again.
			list = append(list, rollout.Reason{
				Code: rollout.PodSpecChanged, Note: "annotation " + contract.PinAnnotation + " cannot be read",
			})
		}
		list = append(list, p.growthReasons(node, pod)...)
		reasons[node.Pod] = append(list, p.loadReasons(node, certificates.publication)...)
	}
	return reasons, nil
}

// freshSnapshot reads everything a disruption is decided from, past the cache.
func (r *Reconciler) freshSnapshot(ctx context.Context, p *pass) (rollout.Snapshot, disruptionRecord, error) {
	record, err := r.readDisruption(ctx, client.ObjectKeyFromObject(&p.kafka))
	if err != nil {
		return rollout.Snapshot{}, disruptionRecord{}, err
	}
	if err := r.readPods(ctx, p.observation, r.options.Live); err != nil {
		return rollout.Snapshot{}, disruptionRecord{}, err
	}
	r.findCompanions(p)
	// What the agents said belongs to the pods of that time.
	r.hear(ctx, p)
	reasons, err := r.freshReasons(ctx, p)
	if err != nil {
		return rollout.Snapshot{}, disruptionRecord{}, err
	}
	snapshot := rollout.Snapshot{
		Now:        p.now,
		Disruption: record.planned(),
	}
	agents := r.options.Connector.Agents(p.access())
	for _, node := range p.allNodes() {
		if _, issued := p.nodes[node.Pod]; !issued && !p.exists(node) {
			continue // it waits for its first certificate, and nobody waits for it
		}
		pod := p.pods[node.Pod]
		entry := rollout.Node{
			ID: rollout.NodeID(node.ID), PodName: node.Pod, Pool: node.Pool,
			Controller: node.Roles.Controller, Broker: node.Roles.Broker,
			Pod: p.rolled(node.Pod), Reasons: reasons[node.Pod], Removal: p.removalOf(node),
		}
		entry.Server = p.serverState(ctx, agents, pod, entry.Pod.State)
		snapshot.Nodes = append(snapshot.Nodes, entry)
	}
	r.observeKafka(ctx, p, &snapshot)
	return snapshot, record, nil
}

// freshReasons says again why pods are to be restarted, from what is written now and
// what has just been heard. It fails with errOvertaken when the pass has to be begun
// anew for that.
func (r *Reconciler) freshReasons(ctx context.Context, p *pass) (map[string][]rollout.Reason, error) {
	if err := r.stillAsked(ctx, p); err != nil {
		return nil, err
	}
	if err := r.stillStored(ctx, p); err != nil {
		return nil, err
	}
	if err := p.decideTrustAgain(); err != nil {
		return nil, err
	}
	return p.reasons()
}

// serverState asks the agent what its server is doing. Silence is Unknown.
func (p *pass) serverState(ctx context.Context, agents Agents, pod *corev1.Pod, state rollout.PodState) rollout.ServerState {
	if (state != rollout.Ready && state != rollout.Unready) || pod.Status.PodIP == "" {
		return rollout.ServerUnknown
	}
	said, err := agents.BrokerState(ctx, agentOf(p.cluster.Names, pod, p.leavesByHost()))
	if err != nil {
		return rollout.ServerUnknown
	}
	return serverOf(said)
}

// observeKafka asks the quorum and the brokers. What nobody answers stays
// unknown, and shuts the gates that need it.
func (r *Reconciler) observeKafka(ctx context.Context, p *pass, snapshot *rollout.Snapshot) {
	kafka, err := r.options.Connector.Admin(p.access())
	if err != nil {
		return
	}
	defer kafka.Close()
	if quorum, err := kafka.Quorum(ctx); err == nil {
		snapshot.Quorum = quorumOf(quorum)
	}
	if partitions, err := kafka.Partitions(ctx); err == nil {
		snapshot.Partitions = partitionsOf(partitions)
	}
}

func quorumOf(q admin.Quorum) rollout.Quorum {
	quorum := rollout.Quorum{Known: true, Leader: rollout.NodeID(q.LeaderID)}
	for _, voter := range q.Voters {
		quorum.Voters = append(quorum.Voters, rollout.Voter{
			ID: rollout.NodeID(voter.ID), CaughtUp: q.CaughtUp(voter.ID, quorumFetchTimeout),
		})
	}
	return quorum
}

func partitionsOf(list []admin.Partition) rollout.Partitions {
	partitions := rollout.Partitions{Known: true, List: make([]rollout.Partition, 0, len(list))}
	for i := range list {
		partitions.List = append(partitions.List, rollout.Partition{
			Topic: list[i].Topic, Index: list[i].Partition, Leader: rollout.NodeID(list[i].Leader),
			Replicas: nodeIDs(list[i].Replicas), InSync: nodeIDs(list[i].InSync), MinInSync: list[i].MinInSync,
		})
	}
	return partitions
}

func nodeIDs(ids []int32) []rollout.NodeID {
	out := make([]rollout.NodeID, 0, len(ids))
	for _, id := range ids {
		out = append(out, rollout.NodeID(id))
	}
	return out
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
