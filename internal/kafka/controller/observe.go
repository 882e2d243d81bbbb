package controller

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// observation is the cluster's Kubernetes side as one reconcile sees it.
type observation struct {
	diary

	memory *memory

	// now is the time, by the API server's clock if the operator's is wrong, and ahead is
	// how much the operator's clock is ahead.
	now   time.Time
	ahead time.Duration
	kafka kafkav1.Kafka
	// denied are the watches that the API server denies and the cluster depends on.
	denied []*watches.DeniedError
	// written is the Kafka as the user wrote it, with the fields that the types
	// do not know.
	written map[string]any
	pools   []*pool
	podSets map[string]podsetv1.StrimziPodSet
	// describing is how many bytes of pods the sets describe that were read.
	describing int
	// anothersSets are the pod sets that claim to be this Kafka's and that this operator has
	// not written, and whether the Kafka owns one or a pool needs its name: then another
	// operator has made it for this Kafka.
	anothersSets map[string]bool
	// descriptions are the pods that the sets describe, by set.
	descriptions map[string][]describedPod
	// pods are those of the nodes, whatever their labels say.
	pods map[string]*corev1.Pod
	// strangers are unrelated pods that have the names of nodes' pods.
	strangers map[string]*corev1.Pod
	// unread are traces of Secrets that are more, or larger, than nodes can have.
	unread []orphanCandidate
	// others are the pods with the cluster's label that are no nodes.
	others []*corev1.Pod
	// offered is the operator's certificate as an issuer has issued it last, with what is presented with it.
	offered []*x509.Certificate
	// secrets are those of the cluster, and brought what its listeners and CAs refer to of others.
	secrets    map[string]corev1.Secret
	referenced map[string]referencedSecret
	claims     map[string]*corev1.PersistentVolumeClaim
	// objects is the metadata of everything of the cluster's that carries its label, except
	// Kafkas, pools, pod sets, pods and Secrets.
	objects map[objectID]*metav1.PartialObjectMetadata
}

// pool is a KafkaNodePool, typed and as it was written.
type pool struct {
	kafkav1.KafkaNodePool

	written map[string]any
}

type objectID struct {
	kind schema.GroupKind
	name string
}

// observe reads the cluster. The second result is false when the Kafka is gone. After an
// error there is an observation if the Kafka itself was read.
//
// What people ask for is read past the cache: a leader with an old picture of that
// would turn back what another has done since.
func (r *Reconciler) observe(ctx context.Context, name types.NamespacedName) (*observation, bool, error) {
	written := rawObject(kafkaKind())
	if err := r.options.Live.Get(ctx, name, written); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("reading Kafka %s: %w", name, err)
	}
	o := &observation{now: r.options.Clock.Now(), written: written.Object}
	r.readClock(o)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, &o.kafka); err != nil {
		return nil, false, fmt.Errorf("decoding Kafka %s: %w", name, err)
	}
	if o.kafka.DeletionTimestamp.IsZero() {
		r.named.Refer(name, referencedSecrets(&o.kafka)) // before they are read: no change is missed
	}
	r.observeDenied(o)
	for _, read := range []func(context.Context, *observation) error{
		r.observePools, r.observePodSets, r.observeOwned, r.observeClaims, r.observeSecrets, r.observePods,
	} {
		if err := read(ctx, o); err != nil {
			return o, true, err
		}
	}
	return o, true, nil
}

func (o *observation) inCluster() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(o.kafka.Namespace),
		client.MatchingLabels{model.ClusterLabel: o.kafka.Name},
	}
}

func (r *Reconciler) observePools(ctx context.Context, o *observation) error {
	list := rawList(poolKind())
	if err := r.options.Live.List(ctx, list, o.inCluster()...); err != nil {
		return fmt.Errorf("listing KafkaNodePools of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
	}
	for i := range list.Items {
		p, err := decodePool(&list.Items[i])
		if err != nil {
			return err
		}
		o.pools = append(o.pools, p)
	}
	slices.SortFunc(o.pools, func(a, b *pool) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func decodePool(written *unstructured.Unstructured) (*pool, error) {
	p := &pool{written: written.Object}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(written.Object, &p.KafkaNodePool)
	if err != nil {
		return nil, fmt.Errorf("decoding KafkaNodePool %s/%s: %w", written.GetNamespace(), written.GetName(), err)
	}
	return p, nil
}

// observePodSets reads the pod sets of the cluster, each by its name: those of its pools, even
// if their label was removed, and those with its label that this operator has applied. Of
// others it is enough that they exist.
func (r *Reconciler) observePodSets(ctx context.Context, o *observation) error {
	o.podSets, o.anothersSets = make(map[string]podsetv1.StrimziPodSet, len(o.pools)), map[string]bool{}
	for _, pool := range o.pools {
		if err := r.addPodSet(ctx, o, o.names().PodSet(pool.Name)); err != nil {
			return err
		}
	}
	known := metadataList(podSetVersionKind())
	if err := r.options.Client.List(ctx, known, o.inCluster()...); err != nil {
		return fmt.Errorf("listing StrimziPodSets of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
	}
	for i := range known.Items {
		if err := r.addMentioned(ctx, o, &known.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// observePods reads the pods of the cluster, and past the cache those of nodes that no set
// names any more. The sets are read past it, too, and a pod that only the cache still shows
// would put the node back that was removed with it. One that has come in its place runs, and
// is a node for as long.
func (r *Reconciler) observePods(ctx context.Context, o *observation) error {
	if err := r.readPods(ctx, o, r.cachedPods); err != nil {
		return err
	}
	// Other clients may label pods as nodes, but a cluster has at most model.MaxNodes of them.
	unnamed := o.unnamed()
	for _, name := range unnamed[:min(len(unnamed), model.MaxNodes)] {
		delete(o.pods, name)
		if err := r.addPod(ctx, o, name, map[string]bool{name: true}); err != nil {
			return err
		}
	}
	return nil
}

// listPods lists the pods with the cluster's label, as the cache keeps them.
type listPods func(ctx context.Context, o *observation) ([]corev1.Pod, error)

// listedPods is how many pods are listed past the cache at a time: pods that other clients
// have labelled may be of any size.
const listedPods = 25

func (r *Reconciler) cachedPods(ctx context.Context, o *observation) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := r.options.Client.List(ctx, &list, o.inCluster()...); err != nil {
		return nil, fmt.Errorf("listing pods of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
	}
	return list.Items, nil
}

func (r *Reconciler) livePods(ctx context.Context, o *observation) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	for page := ""; ; {
		var list corev1.PodList
		options := append(o.inCluster(), client.Limit(listedPods), client.Continue(page))
		if err := r.options.Live.List(ctx, &list, options...); err != nil {
			return nil, fmt.Errorf("listing pods of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
		}
		for i := range list.Items {
			stripPod(&list.Items[i])
		}
		pods = append(pods, list.Items...)
		if page = list.Continue; page == "" {
			return pods, nil
		}
	}
}

// readPods reads the pods of the observed pod sets, and those that are no nodes. A
// pod of a node that the list does not show by the cluster's label is looked for
// by its name, past the cache: only then is it known that there is none.
func (r *Reconciler) readPods(ctx context.Context, o *observation, list listPods) error {
	pods, err := list(ctx, o)
	if err != nil {
		return err
	}
	if err := r.addOwners(ctx, o, pods); err != nil {
		return err
	}
	o.pods, o.strangers, o.others = make(map[string]*corev1.Pod, len(pods)), map[string]*corev1.Pod{}, nil
	names := o.nodeNames()
	for i := range pods {
		if err := r.complete(ctx, o, &pods[i]); err != nil {
			return err
		}
		o.place(&pods[i], names)
	}
	return r.addPods(ctx, o, names)
}

// complete reads a pod of a node by its name whose pin is longer than the cache keeps.
func (r *Reconciler) complete(ctx context.Context, o *observation, pod *corev1.Pod) error {
	if !o.owns(pod) || !isTruncated(pod.Annotations[agent.PinAnnotation]) {
		return nil
	}
	var whole corev1.Pod
	exists, err := r.getLive(ctx, o, pod.Name, &whole)
	if err != nil || !exists {
		return err
	}
	stripNodePod(&whole)
	*pod = whole
	return nil
}

// place sorts a pod with the cluster's label.
func (o *observation) place(pod *corev1.Pod, nodes map[string]bool) {
	switch {
	case o.owns(pod):
		o.pods[pod.Name] = pod
	case nodes[pod.Name]:
		o.strangers[pod.Name] = pod
	default:
		o.others = append(o.others, pod)
	}
}

func (o *observation) owns(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return false
	}
	set, found := o.podSets[owner.Name]
	return found && set.UID == owner.UID
}

func (r *Reconciler) observeOwned(ctx context.Context, o *observation) error {
	o.objects = map[objectID]*metav1.PartialObjectMetadata{}
	for _, kind := range r.owned() {
		list := metadataList(kind)
		if err := r.options.Client.List(ctx, list, o.inCluster()...); err != nil {
			return fmt.Errorf("listing %ss of Kafka %s: %w", kind.Kind, client.ObjectKeyFromObject(&o.kafka), err)
		}
		for i := range list.Items {
			if o.isOurs(&list.Items[i]) {
				o.objects[objectID{kind.GroupKind(), list.Items[i].Name}] = &list.Items[i]
			}
		}
	}
	return nil
}

func (r *Reconciler) observeClaims(ctx context.Context, o *observation) error {
	var list corev1.PersistentVolumeClaimList
	if err := r.options.Client.List(ctx, &list, o.inCluster()...); err != nil {
		return fmt.Errorf("listing PersistentVolumeClaims of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
	}
	o.claims = make(map[string]*corev1.PersistentVolumeClaim, len(list.Items))
	for i := range list.Items {
		claim := &list.Items[i]
		if _, _, ofNode := o.names().NodeOfClaim(claim.Name); !ofNode || !o.isOurs(claim) {
			continue
		}
		o.claims[claim.Name] = claim
		metadata := metadataObject(claimKind())
		metadata.ObjectMeta = claim.ObjectMeta
		o.objects[objectID{claimKind().GroupKind(), claim.Name}] = metadata
	}
	return nil
}

// observeSecrets reads the Secrets of the cluster, each by its name and from the API
// server itself: key material is not cached, and is kept for the length of a reconcile. How
// many others carry the cluster's label makes no difference.
func (r *Reconciler) observeSecrets(ctx context.Context, o *observation) error {
	o.secrets = map[string]corev1.Secret{}
	if err := r.addSecrets(ctx, o, o.secretNames()); err != nil {
		return err
	}
	list := r.cachedSecrets
	if !o.hasAuthorities() {
		list = r.liveSecrets // one is made only if nothing depends on one that was lost
	}
	orphans, err := orphanSecrets(ctx, o, list)
	if err != nil {
		return err
	}
	if err := r.addOrphanSecrets(ctx, o, orphans); err != nil {
		return err
	}
	if err := r.observeOffered(ctx, o); err != nil {
		return err
	}
	return r.observeReferenced(ctx, o)
}

// hasAuthorities reports whether all Secrets of authorities that the operator writes
// were found.
func (o *observation) hasAuthorities() bool {
	for _, kind := range kinds() {
		for _, name := range o.writtenCASecrets(kind) {
			if _, found := o.secrets[name]; !found {
				return false
			}
		}
	}
	return true
}
