package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetac "github.com/keyturn/keyturn/api/core/v1/applyconfiguration/core/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// intended is an object that shall exist.
type intended struct {
	objectID

	// node is the pod of the node that it belongs to; empty where all depend on it.
	node   string
	render func() (runtime.ApplyConfiguration, error)
}

// applyObjects writes everything that holds no key, pods and pod sets apart.
func (r *Reconciler) applyObjects(ctx context.Context, c *applied) error {
	return each(ctx, objectsOf(c.cluster), func(object intended) error {
		err := r.applyObject(ctx, c.desired, object)
		switch {
		case err == nil, c.keepsSize(object, err):
			return nil
		case object.node == "":
			return &sharedError{err}
		default:
			delete(c.nodes, object.node)
			return err
		}
	})
}

// objectsOf are all objects of a cluster that hold no key, pods and pod sets apart.
func objectsOf(cluster model.Cluster) []intended {
	names := cluster.Names
	objects := []intended{
		{objectID{serviceAccountKind().GroupKind(), names.Kafka()}, "", rendered(cluster.ServiceAccount())},
		{objectID{serviceKind().GroupKind(), names.BootstrapService()}, "", func() (runtime.ApplyConfiguration, error) { return cluster.BootstrapService() }},
		{objectID{serviceKind().GroupKind(), names.BrokersService()}, "", rendered(cluster.BrokersService())},
		{objectID{disruptionBudgetKind().GroupKind(), names.Kafka()}, "", rendered(cluster.PodDisruptionBudget())},
	}
	if policy, wanted := cluster.NetworkPolicy(); wanted {
		objects = append(objects, intended{objectID{networkPolicyKind().GroupKind(), names.NetworkPolicy()}, "", rendered(policy)})
	}
	for _, node := range cluster.Nodes {
		if pool, _ := cluster.Pool(node.Pool); pool.Retired {
			// What the pool's own resource said is gone with it; its nodes keep the
			// configuration they have until they leave.
			continue
		}
		objects = append(objects, intended{
			objectID{configMapKind().GroupKind(), node.Pod}, node.Pod, func() (runtime.ApplyConfiguration, error) { return cluster.ConfigMap(node) },
		})
		for _, claim := range cluster.PersistentVolumeClaims(node) {
			objects = append(objects, intended{objectID{claimKind().GroupKind(), *claim.Name}, node.Pod, rendered(claim)})
		}
	}
	return objects
}

// rendered is an object of which nothing can be wrong.
func rendered(object runtime.ApplyConfiguration) func() (runtime.ApplyConfiguration, error) {
	return func() (runtime.ApplyConfiguration, error) { return object, nil }
}

func (r *Reconciler) applyObject(ctx context.Context, c *desired, object intended) error {
	if c.isForeign(object.objectID) {
		return nil
	}
	var observed metav1.Object
	if known, found := c.objects[object.objectID]; found {
		observed = known
	}
	intent, err := object.render()
	if err != nil {
		return fmt.Errorf("rendering %s %s: %w", object.kind.Kind, object.name, err)
	}
	if _, err := r.appliers.Of(c.kafka.UID).Apply(ctx, intent, observed); err != nil {
		return fmt.Errorf("Kafka %s/%s: %w", c.kafka.Namespace, c.kafka.Name, err)
	}
	return nil
}

// applyPodSets writes the pod set of each pool. Pods that run are not touched by
// it: they go on as they are until the rollout planner says otherwise.
func (r *Reconciler) applyPodSets(ctx context.Context, c *applied) error {
	return each(ctx, c.cluster.Pools, func(pool model.Pool) error {
		if pool.Retired {
			return nil
		}
		err := r.applyPodSet(ctx, c, pool)
		if err != nil { // a pod that is made again would be the one from before
			for _, node := range c.cluster.PoolNodes(pool.Name) {
				delete(c.nodes, node.Pod)
			}
		}
		return err
	})
}

func (r *Reconciler) applyPodSet(ctx context.Context, c *applied, pool model.Pool) error {
	pods, err := c.podsOf(pool)
	if err != nil {
		return err
	}
	if err := c.checkSize(pool, pods); err != nil {
		return err
	}
	set, err := c.cluster.PodSet(pool, pods)
	if err != nil {
		return fmt.Errorf("rendering StrimziPodSet of pool %s: %w", pool.Name, err)
	}
	name := c.cluster.Names.PodSet(pool.Name)
	var observed metav1.Object
	if known, found := c.podSets[name]; found {
		observed = &known
		// Which nodes there are is never written from an old record.
		set.WithResourceVersion(known.ResourceVersion)
	}
	intent, err := withPods(set)
	if err != nil {
		return err
	}
	if _, err := r.appliers.Of(c.kafka.UID).Apply(ctx, intent, observed); err != nil {
		return fmt.Errorf("Kafka %s/%s: %w", c.kafka.Namespace, c.kafka.Name, err)
	}
	return nil
}

// withPods writes out the list of pods even when it is empty: the schema requires
// it, and an apply configuration leaves empty lists away.
func withPods(set *podsetac.StrimziPodSetApplyConfiguration) (runtime.ApplyConfiguration, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return nil, fmt.Errorf("encoding StrimziPodSet %s: %w", *set.Name, err)
	}
	if _, found, err := unstructured.NestedSlice(object, "spec", "pods"); err == nil && !found {
		err = unstructured.SetNestedSlice(object, []any{}, "spec", "pods")
		if err != nil {
			return nil, fmt.Errorf("encoding StrimziPodSet %s: %w", *set.Name, err)
		}
	}
	return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: object}), nil
}

// maxPodSet is how many bytes of pods one StrimziPodSet may describe. etcd takes 1.5 MiB
// in one request (--max-request-bytes), metadata and status included.
const maxPodSet = 1_400_000

// checkSize refuses a pool whose pods do not fit into one object.
func (o *observation) checkSize(pool model.Pool, pods []runtime.RawExtension) error {
	size := 0
	for i := range pods {
		size += len(pods[i].Raw)
	}
	if size <= maxPodSet {
		return nil
	}
	return &model.InvalidResourceError{Findings: []model.Finding{{
		Object: "KafkaNodePool " + o.kafka.Namespace + "/" + pool.Name, Reason: model.ReasonInvalidResource,
		Message: fmt.Sprintf("its %d pods take %d bytes to describe, and one StrimziPodSet holds at most %d: spread the nodes over several pools of at most %d",
			len(pods), size, maxPodSet, max(1, len(pods)*maxPodSet/size)),
	}}}
}

// podsOf describes the pods of a pool. A pod must not exist before its Secret does:
// it would have nothing to be pinned to. Where a node cannot be given a certificate
// now, the description from before stays: the node is there, and its pod comes back.
func (c *applied) podsOf(pool model.Pool) ([]runtime.RawExtension, error) {
	var pods []runtime.RawExtension
	for _, node := range c.cluster.PoolNodes(pool.Name) {
		certificates, issued := c.nodes[node.Pod]
		if !issued {
			if before, described := c.described(node); described {
				pods = append(pods, before.raw)
			}
			continue
		}
		pod, err := c.podOf(node, certificates)
		if err != nil {
			return nil, err
		}
		description, err := c.cluster.Describe(pod)
		if err != nil {
			return nil, fmt.Errorf("describing pod %s: %w", node.Pod, err)
		}
		pods = append(pods, description)
	}
	return pods, nil
}

func (c *decided) podOf(node model.Node, certificates nodeCertificates) (*coreac.PodApplyConfiguration, error) {
	pin, err := json.Marshal(certificates.publication)
	if err != nil {
		return nil, fmt.Errorf("pinning pod %s: %w", node.Pod, err)
	}
	pod, err := c.cluster.Pod(node, c.podValues(certificates, string(pin)))
	if err != nil {
		return nil, fmt.Errorf("rendering pod %s: %w", node.Pod, err)
	}
	return pod, nil
}

func (c *decided) podValues(certificates nodeCertificates, pin string) model.PodAnnotations {
	values := model.PodAnnotations{
		ClusterCACertGeneration: int64(certificates.generation),
		ClusterCAKeyGeneration:  int64(c.clusterCA.KeyGeneration),
		ClientsCACertGeneration: int64(c.clientsCA.CertGeneration),
		ServerCertHash:          pki.SHA1Name(certificates.leaf),
		Pin:                     pin,
	}
	if len(c.custom) > 0 {
		values.ListenerCertThumbprints = c.thumbprints()
	}
	return values
}

// thumbprintLength is how much of a certificate's SHA-1 the annotation of
// listener certificates shows.
const thumbprintLength = 8

func (c *desired) thumbprints() map[string]string {
	prints := map[string]string{}
	for _, listener := range c.cluster.Listeners {
		if custom, found := c.custom[listener.Key()]; found {
			prints[listener.Name] = pki.SHA1Name(custom.Chain[0])[:thumbprintLength]
		}
	}
	return prints
}

// triggerKubeletSync makes the kubelet sync the volumes of pods whose publication is newer
// than what is noted on them: changing an annotation does, and waiting
// for its next turn takes a minute.
func (r *Reconciler) triggerKubeletSync(ctx context.Context, c *applied) error {
	return each(ctx, c.cluster.Nodes, func(node model.Node) error {
		pod, exists := c.pods[node.Pod]
		certificates, ours := c.nodes[node.Pod]
		if !exists || !ours {
			return nil
		}
		return r.notePublished(ctx, c.observation, pod, certificates.publication, c.cluster.Stores(node))
	})
}

// notePublished notes on a pod what was published to it last, and what it was given by that,
// unless that is noted already.
func (r *Reconciler) notePublished(ctx context.Context, o *observation, pod *corev1.Pod, published publication.Publication, stores []publication.Store) error {
	note, isNew, err := noteFor(pod, published, stores)
	if err != nil || !isNew {
		return err
	}
	return r.noteOn(ctx, o, pod, note)
}

// noteFor are the annotations that tell a pod what was published to it last, and that remember what it was given. The second
// result is false if the pod has them, or is being removed.
func noteFor(pod *corev1.Pod, published publication.Publication, stores []publication.Store) (map[string]string, bool, error) {
	noted := notedRevision(pod)
	given, gives := givenTo(pod, stores), publication.GivenBy(published, stores, contract.ClusterDomain)
	isNew := (published.Revision > noted || !given.Covers(gives)) && pod.DeletionTimestamp == nil
	remembered := publication.ParseGiven(pod.Annotations[agent.GivenAnnotation])
	note, err := remembered.With(gives).Newest().Encode()
	if err != nil {
		return nil, false, fmt.Errorf("noting what pod %s/%s was given: %w", pod.Namespace, pod.Name, err)
	}
	return map[string]string{
		agent.PublishedAnnotation: formatRevision(max(noted, published.Revision)),
		agent.GivenAnnotation:     note,
	}, isNew, nil
}

// noteOn writes the notes of a pod, all of them: those that are left out are taken away.
func (r *Reconciler) noteOn(ctx context.Context, o *observation, pod *corev1.Pod, notes map[string]string) error {
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(notes)
	if _, err := r.appliers.Of(o.kafka.UID).Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("Kafka %s/%s: %w", o.kafka.Namespace, o.kafka.Name, err)
	}
	return nil
}

// givenTo are the anchors that a pod was given, as its pin and its note tell.
func givenTo(pod *corev1.Pod, stores []publication.Store) publication.Given {
	if pod == nil {
		return publication.Given{}
	}
	return publication.GivenBy(pinOf(pod), stores, contract.ClusterDomain).With(publication.ParseGiven(pod.Annotations[agent.GivenAnnotation]))
}

// pinOf is the publication that a pod pins; the zero value if it is missing or unreadable.
func pinOf(pod *corev1.Pod) publication.Publication {
	var pin publication.Publication
	if err := json.Unmarshal([]byte(pod.Annotations[agent.PinAnnotation]), &pin); err != nil {
		return publication.Publication{}
	}
	return pin
}

// notedRevision is the newest revision that a pod was pinned to or that is noted on it, 0 for
// none.
func notedRevision(pod *corev1.Pod) int64 {
	pinned, _ := pinnedRevision(pod)
	if pod == nil {
		return pinned
	}
	return max(pinned, revisionOf(pod.Annotations[agent.PublishedAnnotation]))
}

// revisionOf reads a revision, 0 if it is none: clients that may annotate pods can write
// any number.
func revisionOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > publication.MaxRevision {
		return 0
	}
	return n
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }
