package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// Lists show what carries the cluster's label, and the cache what it knows.
// What they do not show is looked for by its name, past the cache, before anything
// is decided from its absence. In the steady state they show everything.

// reasonSecretsUnread: there are more Secrets, or larger ones, than nodes can have.
const reasonSecretsUnread = "SecretsUnread"

// reasonForeignPod: an unrelated pod has the name of a node's pod.
const reasonForeignPod = "ForeignPod"

// names derives names before the cluster is resolved.
func (o *observation) names() model.Names {
	return model.Names{Cluster: o.kafka.Name, Namespace: o.kafka.Namespace}
}

// getLive reads an object by its name past the cache, and reports whether it exists.
func (r *Reconciler) getLive(ctx context.Context, o *observation, name string, into client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: o.kafka.Namespace, Name: name}
	err := r.options.Live.Get(ctx, key, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %T %s: %w", into, key, err)
	}
	return err == nil, nil
}

// maxDescribed is how many bytes of pods the sets of one cluster may describe together. A cluster
// of a thousand nodes has some 10 MB, but other clients may apply sets as the operator's field manager.
const maxDescribed = 32 << 20

// tooManySetsError is why a cluster is not looked at: to leave out sets that may be its own
// would take nodes for gone that are not.
type tooManySetsError struct{ cluster string }

func (e *tooManySetsError) Error() string {
	return fmt.Sprintf("StrimziPodSets with the label %s=%s describe more than %d MiB of pods together, which is more than a cluster has: "+
		"delete those that belong to no KafkaNodePool and to no running pod of the cluster; deleting a set deletes its pods", model.ClusterLabel, e.cluster, maxDescribed>>20)
}

// addMentioned adds a pod set of which the cache tells that there is one.
func (r *Reconciler) addMentioned(ctx context.Context, o *observation, set *metav1.PartialObjectMetadata) error {
	_, anothers := o.anothersSets[set.Name]
	_, known := o.podSets[set.Name]
	switch {
	case known, anothers:
		return nil
	case kube.Applied(set, fieldOwner):
		return r.addPodSet(ctx, o, set.Name)
	default:
		o.takePodSet(&podsetv1.StrimziPodSet{ObjectMeta: set.ObjectMeta})
		return nil
	}
}

// addPodSet adds the pod set of that name, if there is one.
func (r *Reconciler) addPodSet(ctx context.Context, o *observation, name string) error {
	return r.readPodSet(ctx, o, name, o.takePodSet)
}

// readPodSet reads the pod set of that name, if there is one and it is not known.
func (r *Reconciler) readPodSet(ctx context.Context, o *observation, name string, take func(*podsetv1.StrimziPodSet)) error {
	if _, known := o.podSets[name]; known {
		return nil
	}
	var set podsetv1.StrimziPodSet
	exists, err := r.getLive(ctx, o, name, &set)
	if err != nil || !exists {
		return err
	}
	take(&set)
	if _, taken := o.podSets[name]; taken {
		for i := range set.Spec.Pods {
			o.describing += len(set.Spec.Pods[i].Raw)
		}
	}
	if o.describing > maxDescribed {
		return &tooManySetsError{o.kafka.Name}
	}
	return nil
}

// addOwners adds the pod sets that own pods of the cluster. Nothing else identifies a set
// whose pool and label are both gone, or a set whose writer is unknown.
func (r *Reconciler) addOwners(ctx context.Context, o *observation, pods []corev1.Pod) error {
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		if owner == nil || owner.Kind != podSetKind {
			continue
		}
		if _, _, ofNode := o.names().NodeOf(pods[i].Name); !ofNode {
			continue
		}
		if err := r.addOwner(ctx, o, owner); err != nil {
			return err
		}
	}
	return nil
}

// addOwner adds the pod set that owns a pod, if there still is one.
func (r *Reconciler) addOwner(ctx context.Context, o *observation, owner *metav1.OwnerReference) error {
	return r.readPodSet(ctx, o, owner.Name, func(set *podsetv1.StrimziPodSet) {
		if set.UID == owner.UID {
			o.takeOwner(set)
		}
	})
}

// nodeNames are the pods of all nodes that left something: those of the pod sets, and of
// others as many as a cluster may have. What its Kafka owns comes before what only
// carries its label, because other clients may have created the latter.
func (o *observation) nodeNames() map[string]bool {
	names := map[string]bool{}
	for name := range o.podSets {
		set := o.podSets[name]
		for _, id := range o.nodesOf(&set).NodeIDs {
			names[o.names().Pod(poolOf(o.kafka.Name, &set), id)] = true
		}
	}
	room := model.MaxNodes
	for _, t := range o.orphanCandidates() {
		if room == 0 {
			break
		}
		if !names[t.name] {
			names[t.name] = true
			room--
		}
	}
	return names
}

// ofNode reports whether a Secret is that of a node.
func (o *observation) ofNode(secret string) bool {
	_, _, named := o.names().NodeOf(secret)
	_, holds := o.secrets[secret].Data[secret+".crt"]
	return named && holds
}

// addPods looks for the pods of nodes that have not been found yet.
func (r *Reconciler) addPods(ctx context.Context, o *observation, names map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if o.podNamed(name) != nil {
			continue
		}
		if err := r.addPod(ctx, o, name, names); err != nil {
			return err
		}
	}
	return nil
}

// addPod adds the pod of that name, if there is one.
func (r *Reconciler) addPod(ctx context.Context, o *observation, name string, nodes map[string]bool) error {
	var pod corev1.Pod
	exists, err := r.getLive(ctx, o, name, &pod)
	if err != nil || !exists {
		return err
	}
	if o.owns(&pod) {
		stripNodePod(&pod)
	} else {
		stripPod(&pod)
	}
	o.place(&pod, nodes)
	return nil
}

// podNamed is the pod that has the name of a node's: the node's own, or an unrelated one.
func (o *observation) podNamed(name string) *corev1.Pod {
	if pod, found := o.pods[name]; found {
		return pod
	}
	return o.strangers[name]
}

// secretNames are the Secrets by which a cluster lives.
func (o *observation) secretNames() []string {
	names := []string{o.kafka.Name + operatorSecretSuffix}
	for _, kind := range kinds() {
		names = append(names, o.caSecrets(kind)...)
	}
	for name := range o.podSets {
		set := o.podSets[name]
		for _, id := range o.nodesOf(&set).NodeIDs {
			names = append(names, o.names().Pod(poolOf(o.kafka.Name, &set), id))
		}
	}
	return names
}

func (o *observation) caSecrets(kind authorities.Kind) []string {
	return []string{kind.KeySecret(o.kafka.Name), kind.CertSecret(o.kafka.Name), kind.TrustedCertsSecret(o.kafka.Name)}
}

// addSecrets adds those of the names that addSecret does.
func (r *Reconciler) addSecrets(ctx context.Context, o *observation, names []string) error {
	for _, name := range names {
		if err := r.addSecret(ctx, o, name); err != nil {
			return err
		}
	}
	return nil
}

// addSecret adds the Secret of that name, if there is one that belongs to the cluster,
// or has until its marks were taken off, or is provided for it by its user.
func (r *Reconciler) addSecret(ctx context.Context, o *observation, name string) error {
	if _, known := o.secrets[name]; known {
		return nil
	}
	var secret corev1.Secret
	exists, err := r.getLive(ctx, o, name, &secret)
	if exists && (o.isOurs(&secret) || isUnmarked(&secret) && kube.Wrote(&secret, fieldOwner) || o.isBrought(name)) {
		o.secrets[name] = secret
	}
	return err
}

// isBrought reports whether a Secret of an authority is its user's, who need not have
// labelled it.
func (o *observation) isBrought(name string) bool {
	return slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		return slices.Contains(o.caSecrets(kind), name) && !slices.Contains(o.writtenCASecrets(kind), name)
	})
}

// noteHidden tells people what is found by its name alone, as far as the operator
// does not put it right itself.
func (c *desired) noteHidden() {
	for _, name := range slices.Sorted(maps.Keys(c.strangers)) {
		c.note("Pod "+name, reasonForeignPod,
			"it has the name of a node's pod but belongs to something else, so it is unknown what it presents and trusts: "+
				"delete it, or restore its owner reference")
	}
	for _, name := range slices.Sorted(maps.Keys(c.anothersSets)) {
		if !c.isForeign(objectID{podSetGroupKind(), name}) {
			c.note(podSetKind+" "+name, reasonForeignObject,
				"it claims to belong to this cluster, but Keyturn did not create it, so the nodes it describes are not part of the cluster: "+
					"remove its label "+model.ClusterLabel+" and its reference to the Kafka as its owner, or delete it if its pods are not needed")
		}
	}
	if why := c.whyUnread(); why != "" {
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonSecretsUnread, why)
	}
	for name := range c.pods {
		if c.pods[name].Labels[model.ClusterLabel] != c.kafka.Name {
			c.wake(c.now.Add(kube.Unwatched))
		}
	}
}
