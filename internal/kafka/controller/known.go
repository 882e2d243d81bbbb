package controller

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// podSetKind is the kind of the owners of pods.
const podSetKind = "StrimziPodSet"

// known gathers what the running cluster binds the model to. The pod sets are
// the record of which nodes there are: they are written before any pod exists.
func (o *observation) known() model.Known {
	known := model.Known{
		ClusterID:       o.kafka.Status.ClusterId,
		ClaimedBy:       o.clusterIDs(),
		MetadataVersion: release.MetadataVersion(o.kafka.Status.KafkaMetadataVersion),
		Pools:           map[string]model.KnownPool{},
		Taken:           o.taken(),
	}
	for name := range o.podSets {
		set := o.podSets[name]
		known.Pools[poolOf(o.kafka.Name, &set)] = o.nodesOf(&set)
	}
	for _, pool := range o.pools {
		if _, built := known.Pools[pool.Name]; !built && o.isRecorded(pool) {
			known.Pools[pool.Name] = recordedPool(pool)
		}
	}
	return known
}

// recalledClusterID is the id of the cluster whose data the claims hold, when the Kafka
// does not know it: it was deleted and made again, or its status is lost. Without claims
// it is what all pools remember.
func (o *observation) recalledClusterID() string {
	for _, name := range slices.Sorted(maps.Keys(o.claims)) {
		if id := o.claims[name].Annotations[model.ClusterIDAnnotation]; id != "" {
			return id
		}
	}
	remembered := ""
	for _, pool := range o.pools {
		id := pool.Status.ClusterId
		if id != "" && remembered != "" && id != remembered {
			return ""
		}
		remembered = cmp.Or(id, remembered)
	}
	return remembered
}

// clusterIDs are the ids of the clusters whose data the claims hold, by claim.
func (o *observation) clusterIDs() map[string]string {
	ids := map[string]string{}
	for name, claim := range o.claims {
		if id := claim.Annotations[model.ClusterIDAnnotation]; id != "" {
			ids[name] = id
		}
	}
	return ids
}

// poolOf is the pool of a pod set of the cluster.
func poolOf(cluster string, set *podsetv1.StrimziPodSet) string {
	return strings.TrimPrefix(set.Name, cluster+"-")
}

// isRecorded reports whether the status of a pool speaks of this very cluster.
func (o *observation) isRecorded(p *pool) bool {
	id := o.kafka.Status.ClusterId
	return id != "" && p.Status.ClusterId == id && len(p.Status.NodeIds) > 0
}

// recordedPool is a pool whose pod set is lost, as its status remembers it.
func recordedPool(p *pool) model.KnownPool {
	known := model.KnownPool{Roles: model.RolesOf(p.Status.Roles)}
	for _, id := range p.Status.NodeIds {
		known.NodeIDs = append(known.NodeIDs, model.NodeID(id))
	}
	slices.Sort(known.NodeIDs)
	return known
}

// nodesOf counts the nodes of a pod set: those that it names, and those whose pods still
// run although it no longer does.
func (o *observation) nodesOf(set *podsetv1.StrimziPodSet) model.KnownPool {
	pool := model.KnownPool{Storage: recordedStorage(set)}
	for name := range o.pods {
		if pod := o.pods[name]; metav1.IsControlledBy(pod, set) {
			addNode(&pool, pod, set.Name)
		}
	}
	named := o.namedBy(set)
	if len(named.NodeIDs) > 0 {
		pool.Roles = named.Roles
	}
	pool.NodeIDs = append(pool.NodeIDs, named.NodeIDs...)
	slices.Sort(pool.NodeIDs)
	pool.NodeIDs = slices.Compact(pool.NodeIDs)
	return pool
}

// namedBy are the nodes that a pod set records, and those that it describes.
func (o *observation) namedBy(set *podsetv1.StrimziPodSet) model.KnownPool {
	pool := model.KnownPool{}
	recorded, err := model.ParseRecordedNodes(set.Annotations[model.NodesAnnotation])
	if err == nil && len(recorded.IDs) > 0 {
		pool.NodeIDs, pool.Roles = recorded.IDs, recorded.Roles
	}
	described := o.describedPods(set)
	for i := range described {
		addNode(&pool, &described[i].pod, set.Name)
	}
	return pool
}

// unnamed are the pods of nodes that the sets which they belong to do not name, sorted.
func (o *observation) unnamed() []string {
	var unnamed []string
	for name := range o.podSets {
		set := o.podSets[name]
		named := o.namedBy(&set).NodeIDs
		for pod := range o.pods {
			_, id, ofNode := o.names().NodeOf(pod)
			if ofNode && metav1.IsControlledBy(o.pods[pod], &set) && !slices.Contains(named, id) {
				unnamed = append(unnamed, pod)
			}
		}
	}
	slices.Sort(unnamed)
	return unnamed
}

func recordedStorage(set *podsetv1.StrimziPodSet) *kafkav1.Storage {
	storage, err := model.ParseStorage(set.Annotations[model.StorageAnnotation])
	if err != nil {
		return nil
	}
	return &storage
}

// describedPod is a pod as a set describes it.
type describedPod struct {
	pod corev1.Pod
	raw runtime.RawExtension
}

// describedPods reads the pods of an observed set, once.
func (o *observation) describedPods(set *podsetv1.StrimziPodSet) []describedPod {
	if read, found := o.descriptions[set.Name]; found {
		return read
	}
	if o.descriptions == nil {
		o.descriptions = map[string][]describedPod{}
	}
	o.descriptions[set.Name] = readPods(set)
	return o.descriptions[set.Name]
}

// readPods reads the pods that a set describes; one that cannot be read is left out: it is
// not ours, and the pod set controller says so.
func readPods(set *podsetv1.StrimziPodSet) []describedPod {
	pods := make([]describedPod, 0, len(set.Spec.Pods))
	for _, raw := range set.Spec.Pods {
		described := describedPod{raw: raw}
		if json.Unmarshal(raw.Raw, &described.pod) == nil {
			pods = append(pods, described)
		}
	}
	return pods
}

// described is the pod of a node as the pod set of its pool describes it so far.
func (o *observation) described(node model.Node) (describedPod, bool) {
	set, exists := o.podSets[o.names().PodSet(node.Pool)]
	if !exists {
		return describedPod{}, false
	}
	pods := o.describedPods(&set)
	i := slices.IndexFunc(pods, func(d describedPod) bool { return d.pod.Name == node.Pod })
	if i < 0 {
		return describedPod{}, false
	}
	return pods[i], true
}

// addNode adds the node of a pod of the set to the pool.
func addNode(pool *model.KnownPool, pod *corev1.Pod, set string) {
	id, err := strconv.ParseInt(strings.TrimPrefix(pod.Name, set+"-"), 10, 32)
	if err != nil {
		return
	}
	pool.NodeIDs = append(pool.NodeIDs, model.NodeID(id))
	pool.Roles = model.Roles{
		Controller: pod.Labels[model.ControllerRoleLabel] == isTrue,
		Broker:     pod.Labels[model.BrokerRoleLabel] == isTrue,
	}
}

// taken are the ids of pods, volumes and Secrets, by pool.
func (o *observation) taken() map[string][]model.NodeID {
	taken := map[string][]model.NodeID{}
	note := func(name string) {
		if pool, id, named := o.names().NodeOf(name); named {
			taken[pool] = append(taken[pool], id)
		}
	}
	for name := range o.pods {
		note(name)
	}
	for name := range o.strangers {
		note(name)
	}
	for name := range o.secrets {
		if o.ofNode(name) {
			note(name)
		}
	}
	for _, t := range o.unreadNodes() {
		note(t.name)
	}
	for name, claim := range o.claims {
		if id, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 32); err == nil {
			pool := claim.Labels[model.PoolLabel]
			taken[pool] = append(taken[pool], model.NodeID(id))
		}
	}
	return taken
}
