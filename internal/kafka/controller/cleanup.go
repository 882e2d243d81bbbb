package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	podsetac "github.com/keyturn/keyturn/api/core/v1/applyconfiguration/core/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
)

// deleteClaimAnnotation on a claim says whether it goes with its node.
const deleteClaimAnnotation = "strimzi.io/delete-claim"

// cleanUp takes away what belonged to nodes that are gone, and a network policy that is
// not made any more.
func (r *Reconciler) cleanUp(ctx context.Context, c *applied) error {
	return each(ctx, []step{r.takeAwayLeft, r.withdrawRequests, r.deleteFormerKeys, r.cleanUpPodSets},
		func(step step) error { return step(ctx, c) })
}

func (r *Reconciler) takeAwayLeft(ctx context.Context, c *applied) error {
	return each(ctx, append(c.leftBehind(), c.formerPolicy()...), func(object client.Object) error { return r.takeAway(ctx, c.observation, object) })
}

// takeAway deletes an object that the resources do not ask for, unless they or the object
// have changed. An object of a node that was added since is newer, or another leader wrote it.
func (r *Reconciler) takeAway(ctx context.Context, o *observation, object client.Object) error {
	if err := r.checkResources(ctx, o); err != nil {
		return err
	}
	return kube.DeleteUnchanged(ctx, r.options.Client, object)
}

// leftBehind are the Secrets, ConfigMaps and claims of nodes that are gone.
func (c *polled) leftBehind() []client.Object {
	var left []client.Object
	kept := c.keptNames()
	for name := range c.secrets {
		secret := c.secrets[name]
		if _, ofNode := secret.Data[agent.PublicationKey]; ofNode && !kept[name] && secret.DeletionTimestamp == nil {
			left = append(left, &secret)
		}
	}
	for id, object := range c.objects {
		if !kept[id.name] && object.DeletionTimestamp == nil && c.goesWithNode(id, object) {
			left = append(left, object)
		}
	}
	return left
}

// formerPolicy is the cluster's network policy from before policies were switched off.
// A label says less than an owner does: a policy that people have made in its place has
// the label at most, and stays.
func (c *desired) formerPolicy() []client.Object {
	policy, found := c.objects[objectID{networkPolicyKind().GroupKind(), c.cluster.Names.NetworkPolicy()}]
	if _, wanted := c.cluster.NetworkPolicy(); wanted || !found || policy.DeletionTimestamp != nil {
		return nil
	}
	if !c.isOwned(policy) {
		return nil
	}
	return []client.Object{policy}
}

// keptNames are the names of everything that belongs to a companion, to a node that
// exists, or to one whose pod still does.
func (c *polled) keptNames() map[string]bool {
	kept := map[string]bool{}
	for name := range c.pods {
		kept[name] = true
	}
	for _, at := range c.companions {
		kept[at.Secret] = true
	}
	for _, node := range c.allNodes() {
		kept[node.Pod] = true
		for _, claim := range c.cluster.PersistentVolumeClaims(node) {
			kept[*claim.Name] = true
		}
	}
	return kept
}

// goesWithNode reports whether an object is deleted when its node is gone. What carries the
// labels of a node's and has another name, or another owner than the Kafka or none, is not
// the node's.
func (o *observation) goesWithNode(id objectID, object *metav1.PartialObjectMetadata) bool {
	if !o.isOwned(object) {
		return false
	}
	switch id.kind {
	case configMapKind().GroupKind():
		_, _, ofNode := o.names().NodeOf(id.name)
		return ofNode
	case claimKind().GroupKind():
		return object.Annotations[deleteClaimAnnotation] == isTrue // its name was looked at
	default:
		return false
	}
}

// cleanUpPodSets takes nodes that were granted their removal out of the sets of
// pools whose resource is gone, and deletes sets that nothing is left of.
func (r *Reconciler) cleanUpPodSets(ctx context.Context, c *applied) error {
	return each(ctx, slices.Sorted(maps.Keys(c.podSets)), func(name string) error {
		set := c.podSets[name]
		pool, exists := c.cluster.Pool(poolOf(c.kafka.Name, &set))
		switch {
		case !exists && !c.hasPods(&set):
			return r.takeAway(ctx, c.observation, &set)
		case !exists || pool.Retired:
			return r.shrinkPodSet(ctx, c.desired, name, pool)
		default:
			return nil
		}
	})
}

func (o *observation) hasPods(set *podsetv1.StrimziPodSet) bool {
	for name := range o.pods {
		if metav1.IsControlledBy(o.pods[name], set) {
			return true
		}
	}
	return false
}

// shrinkPodSet keeps the descriptions of the remaining pods unchanged: their
// KafkaNodePool is gone, so the operator could not create them again.
func (r *Reconciler) shrinkPodSet(ctx context.Context, c *desired, name string, pool model.Pool) error {
	set := c.podSets[name]
	described := c.describedPods(&set)
	kept := make([]runtime.RawExtension, 0, len(described))
	for i := range described {
		if c.describes(described[i].pod.Name) {
			kept = append(kept, described[i].raw)
		}
	}
	nodes, err := model.RecordedNodes{IDs: pool.NodeIDs, Roles: pool.Roles}.Encode()
	if err != nil {
		return fmt.Errorf("StrimziPodSet %s/%s: %w", set.Namespace, name, err)
	}
	if len(kept) == len(set.Spec.Pods) && set.Annotations[model.NodesAnnotation] == nodes {
		return nil
	}
	annotations := map[string]string{}
	maps.Copy(annotations, set.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation) // a copy of the whole, and kubectl's
	annotations[model.NodesAnnotation] = nodes
	intent := podsetac.StrimziPodSet(name, set.Namespace).
		WithLabels(set.Labels).
		WithAnnotations(annotations).
		WithOwnerReferences(ownerReference(&c.kafka)).
		WithSpec(podsetac.StrimziPodSetSpec().
			WithSelector(selectorOf(&set)).
			WithPods(kept...)).
		WithResourceVersion(set.ResourceVersion)
	complete, err := withPods(intent)
	if err != nil {
		return err
	}
	if _, err := r.appliers.Of(c.kafka.UID).Apply(ctx, complete, nil); err != nil {
		return fmt.Errorf("taking removed nodes out of StrimziPodSet %s/%s: %w", set.Namespace, name, err)
	}
	return nil
}

// forgetRemoved makes Kafka forget a broker whose removal is recorded and whose
// pod is gone. It runs before the record is cleared, so that a crash in between
// does it again.
func (r *Reconciler) forgetRemoved(ctx context.Context, c *decided, seen rolloutInput) error {
	record := seen.record
	if record.Disruption == nil || record.Kind != rollout.Remove {
		return nil
	}
	for _, node := range c.allNodes() {
		if rollout.NodeID(node.ID) == record.Disruption.Node {
			return nil
		}
	}
	if !seen.snapshot.Partitions.Known {
		return errUnpolled // brokers that do not answer are not waited for
	}
	kafka, err := r.options.Connector.Admin(c.access())
	if err != nil {
		return fmt.Errorf("unregistering broker %d: %w", record.Disruption.Node, err)
	}
	defer kafka.Close()
	err = kafka.UnregisterBroker(ctx, int32(record.Disruption.Node))
	if _, gone := errors.AsType[*admin.UnknownBrokerError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unregistering broker %d of Kafka %s: %w", record.Disruption.Node, client.ObjectKeyFromObject(&c.kafka), err)
	}
	return nil
}
