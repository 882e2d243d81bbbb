package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/imagepull"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
)

// kept is what the cache keeps of an object.
func kept[T client.Object](t *testing.T, object T) T {
	t.Helper()
	options := CacheOptions(nil)
	transform := options.DefaultTransform
	for of, by := range options.ByObject {
		if kindOf(t, of) == kindOf(t, object) {
			transform = by.Transform
		}
	}
	copied, is := object.DeepCopyObject().(T)
	if !is {
		t.Fatalf("a copy of a %T is something else", object)
	}
	left, err := transform(copied)
	if err != nil {
		t.Fatal(err)
	}
	if copied, is = left.(T); !is {
		t.Fatalf("what is left of a %T is a %T", object, left)
	}
	return copied
}

func kindOf(t *testing.T, object client.Object) schema.GroupVersionKind {
	t.Helper()
	scheme, _ := known(t)
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// hugely is how many there are of what there should be a few.
const hugely = 3_000

// shorter is a text that is the longest for the first of them.
func shorter(i int) string { return strings.Repeat("x", hugely-i) }

// huge is metadata of which nothing is short that a tenant may write.
func huge(name string) metav1.ObjectMeta {
	long := strings.Repeat("x", 1<<10)
	meta := metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: "1", ResourceVersion: "2",
		Labels: map[string]string{model.ClusterLabel: "my"}, Annotations: map[string]string{},
	}
	for _, key := range append(model.ReadOfPods(), model.ClusterIDAnnotation, deleteClaimAnnotation, model.NodesAnnotation) {
		meta.Annotations[key] = strings.Repeat(long, 250)
	}
	for i := range hugely {
		text := fmt.Sprintf("%d-%s", i, long)
		meta.Labels[fmt.Sprintf("strimzi.io/label-%d", i)] = "x"
		meta.Annotations[fmt.Sprintf("strimzi.io/annotation-%d", i)] = text
		meta.Annotations[fmt.Sprintf("example.com/annotation-%d", i)] = text
		meta.Finalizers = append(meta.Finalizers, text)
		meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{
			APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: shorter(i), UID: types.UID(strconv.Itoa(i)),
		})
		entry := writtenBy(string(fieldOwner))
		entry.APIVersion, entry.FieldsV1 = text, metav1.NewFieldsV1(`{"f:`+text+`":{}}`)
		meta.ManagedFields = append(meta.ManagedFields, entry)
	}
	return meta
}

// hugePod is a pod as a tenant may write one, with what the kubelet says of it.
func hugePod() *corev1.Pod {
	long := strings.Repeat("x", 1<<10)
	pod := &corev1.Pod{ObjectMeta: huge("my-dual-0")}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Message: strings.Repeat(long, hugely)})
	}
	for i := range hugely {
		name := fmt.Sprintf("%d-%s", i, long)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Args: []string{long}})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name})
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: shorter(i)})
		status := corev1.ContainerStatus{
			Name: name, Image: long,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: long}},
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
	}
	return pod
}

func hugeClaim() *corev1.PersistentVolumeClaim {
	long := strings.Repeat("x", 1<<10)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: huge("data-my-dual-0")}
	claim.Spec.VolumeName = strings.Repeat(long, hugely)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for i := range hugely {
		claim.Spec.Resources.Requests[corev1.ResourceName(fmt.Sprintf("%d.%s", i, long))] = resource.MustParse("1Gi")
	}
	return claim
}

func TestWhatTheCacheKeepsOfAnObjectIsSmallWhateverItHolds(t *testing.T) {
	t.Parallel()
	metadata := func(object *metav1.PartialObjectMetadata) client.Object {
		object.ObjectMeta = huge("my-dual")
		return kept(t, object)
	}
	const small = 16 << 10
	for name, c := range map[string]struct {
		left  client.Object
		bytes int
	}{
		"a pod":           {kept(t, hugePod()), 8 * small},
		"a claim":         {kept(t, hugeClaim()), small},
		"a pod set":       {metadata(metadataObject(podSetVersionKind())), small},
		"a Secret":        {metadata(metadataObject(secretKind())), small},
		"a configuration": {metadata(metadataObject(configMapKind())), small},
		"a pool":          {metadata(metadataObject(poolKind())), small},
		"a Kafka":         {metadata(metadataObject(kafkaKind())), small},
		"a companion":     {metadata(metadataObject(deploymentKind())), 3 * small},
	} {
		text, err := json.Marshal(c.left)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > c.bytes || c.left.GetLabels()[model.ClusterLabel] != "my" {
			t.Errorf("%d bytes are kept of %s, want %d at most: %.200s", len(text), name, c.bytes, text)
		}
	}
}

// honestPod is a pod as kubelets and the operator write them.
func honestPod() *corev1.Pod {
	pin, err := publication.Publication{
		Revision: 7, Trust: map[publication.Role][]string{"replication-9091": {strings.Repeat("a", 64)}, publication.AgentRole: {strings.Repeat("b", 64)}},
	}.Encode()
	if err != nil {
		panic(err)
	}
	at := metav1.NewTime(noon())
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "my-dual-0", UID: "pod", CreationTimestamp: at,
			Labels: map[string]string{
				model.ClusterLabel: "my", model.NameLabel: "my-kafka", model.PoolLabel: "dual",
				model.BrokerRoleLabel: isTrue, model.ControllerRoleLabel: isTrue, "app.kubernetes.io/part-of": "strimzi-my",
			},
			Annotations: map[string]string{
				agent.PinAnnotation: string(pin), agent.PublishedAnnotation: "9", agent.GivenAnnotation: `{"cluster":["` + strings.Repeat("c", 64) + `"]}`,
				model.RevisionAnnotation: "1", model.KafkaVersionAnnotation: "4.3.1", model.ServerCertHashAnnotation: strings.Repeat("d", 40),
				model.ManualRollingUpdateAnnotation: isTrue, "strimzi.io/misspelled": isTrue, "example.com/copy": "x",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "core.strimzi.io/v1", Kind: podSetKind, Name: "my-dual", UID: "set", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "machine", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}}, Containers: []corev1.Container{{Name: "kafka"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: at},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://init"}},
			ContainerStatuses: []corev1.ContainerStatus{{
				ContainerID: "containerd://kafka", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			}},
		},
	}
}

func TestAPodIsTheSameToTheOperatorAsTheCacheKeepsItAndAsItIs(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(noon().Add(time.Minute))
	for name, change := range map[string]func(*corev1.Pod){
		"as it crashes": func(*corev1.Pod) {},
		"as it cannot be prepared": func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State, p.Status.ContainerStatuses[0].State = p.Status.ContainerStatuses[0].State, corev1.ContainerState{}
		},
		"as it waits for its image": func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Waiting.Reason = "ImagePullBackOff" },
		"as it is ready": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Waiting = nil
			p.Status.Conditions[1].Status = corev1.ConditionTrue
		},
		"as it is deleted": func(p *corev1.Pod) { p.DeletionTimestamp = &deleted },
		"as it has ended":  func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"as nobody places it": func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions[2] = podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
		},
		"with many anchors given": func(p *corev1.Pod) {
			p.Annotations[agent.GivenAnnotation] = `{"cluster":["` + strings.Repeat(strings.Repeat("c", 64)+`","`, 100) + `c"]}`
		},
		"with a broken pin": func(p *corev1.Pod) { p.Annotations[agent.PinAnnotation] = "{" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := honestPod()
			change(pod)
			left := kept(t, pod)
			stores := []publication.Store{{Role: "replication-9091", Trust: contract.ClusterDomain}}
			c := clusterOf(&kafkav1.Kafka{}, nil)
			seen := func(pod *corev1.Pod) []any {
				revision, readable := pinnedRevision(pod)
				pool := model.KnownPool{}
				addNode(&pool, pod, "my-dual")
				return []any{
					podOf(pod), containersOf(pod), processStateOf(pod, agentReport{}), agentOf(c.cluster.Names, pod, nil), c.rolesOf(pod),
					revision, readable, notedRevision(pod), givenTo(pod, stores), pool, model.IdlePodAnnotations(pod.Annotations), imagepull.Awaits(pod), imagepull.Cause(pod),
					model.Reasons(pod.Annotations, nil), model.CertificateReasons(pod.Annotations, nil), metav1.GetControllerOf(pod).UID,
				}
			}
			if diff := cmp.Diff(seen(pod), seen(left)); diff != "" {
				t.Errorf("(-as it is +as it is kept):\n%s", diff)
			}
		})
	}
}

func TestOfManyOwnersThoseAreKeptThatTellWhoseAnObjectIs(t *testing.T) {
	t.Parallel()
	pod := honestPod()
	controller := pod.OwnerReferences[0]
	pod.OwnerReferences = nil
	for i := range 20 {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))})
	}
	kafka := metav1.OwnerReference{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}
	pod.OwnerReferences = append(pod.OwnerReferences, kafka, controller)

	left := kept(t, pod)

	if !cmp.Equal(left.OwnerReferences, []metav1.OwnerReference{kafka, controller}) {
		t.Errorf("the owners that are left are %+v", left.OwnerReferences)
	}
}

// pinnedTo is a cached pod and the same as it is, with a pin of so many bytes.
func pinnedTo(t *testing.T, bytes int, owner types.UID) (cached, live *corev1.Pod) {
	t.Helper()
	live = honestPod()
	live.ResourceVersion = ""
	live.OwnerReferences[0].UID = owner
	live.Annotations[agent.PinAnnotation] = `{"revision": 7, "configuration": "` + strings.Repeat("x", bytes) + `"}`
	return kept(t, live), live
}

func TestThePodOfANodeWithALongPinIsReadByItsName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes    int
		owner    types.UID
		looks    int
		revision int64
	}{
		"a usual pin":                        {100, "set", 0, 7},
		"a long pin that the cache holds":    {maxPin - 100, "set", 0, 7},
		"a pin that the cache does not hold": {maxPin, "set", 1, 7},
		"of a pod that is no node's":         {maxPin, "another", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cached, live := pinnedTo(t, c.bytes, c.owner)
			looks := 0
			api := interceptor.NewClient(fake.NewClientBuilder().WithObjects(live).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if _, pod := object.(*corev1.Pod); pod {
						looks++
					}
					return api.Get(ctx, key, object, options...)
				},
			})
			r := New(Options{Client: fake.NewClientBuilder().WithObjects(cached).Build(), Live: api, Metrics: metrics.New()})
			p := clusterWithSets()
			set := setOf("x")
			set.Spec.Pods, set.UID = nil, "set"
			set.Annotations = map[string]string{model.NodesAnnotation: `{"ids":[0],"roles":["broker","controller"]}`}
			p.podSets["my-dual"] = *set
			p.anothersSets = map[string]bool{}

			if err := r.observePods(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}

			if looks != c.looks {
				t.Errorf("%d pods were read by their names, want %d", looks, c.looks)
			}
			pod, found := p.pods["my-dual-0"]
			if revision, _ := pinnedRevision(pod); found != (c.revision > 0) || revision != c.revision {
				t.Errorf("a node's: %t, its revision is %d", found, revision)
			}
			if found && len(pod.Spec.Containers) > 0 {
				t.Errorf("its specification is kept: %+v", pod.Spec)
			}
		})
	}
}

// What a reconcile reads past the cache is no larger than what it reads from it.
func TestPodsThatAreReadPastTheCacheAreLeftTheSame(t *testing.T) {
	t.Parallel()
	live := honestPod()
	live.ResourceVersion = ""
	api := fake.NewClientBuilder().WithObjects(live).Build()
	r := New(Options{Client: api, Live: api, Metrics: metrics.New()})
	c := clusterWithSets()
	set := setOf("x")
	set.UID = "set"
	c.podSets["my-dual"] = *set

	if err := r.readPods(t.Context(), c.observation, r.livePods); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(kept(t, live).Status, c.pods["my-dual-0"].Status); diff != "" || c.pods["my-dual-0"].Spec.Containers != nil {
		t.Errorf("(-as it is kept +as it is read):\n%s", diff)
	}
}

func TestAClaimIsTheSameToTheOperatorAsTheCacheKeepsItAndAsItIs(t *testing.T) {
	t.Parallel()
	claim := growing(noon())
	claim.Labels = map[string]string{model.ClusterLabel: "my", model.PoolLabel: "dual"}
	claim.Annotations = map[string]string{model.ClusterIDAnnotation: "id", deleteClaimAnnotation: isTrue}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	seen := func(claim *corev1.PersistentVolumeClaim) []any {
		since, waits := waitsForMount(claim)
		return []any{since, waits, claim.Spec.Resources.Requests.Storage().String(), claim.Labels, claim.Annotations}
	}
	if diff := cmp.Diff(seen(claim), seen(kept(t, claim))); diff != "" {
		t.Errorf("(-as it is +as it is kept):\n%s", diff)
	}
}

// The sets are read past the cache. A node that only the cache still shows would be put back
// into its set, and removed once more.
func TestAPodThatOnlyTheCacheStillShowsMakesNoNode(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"it is gone": false, "it still runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := make([]client.Object, 0, 2)
			for _, of := range []string{"my-dual-0", "my-dual-7"} {
				pod := honestPod()
				pod.Name, pod.ResourceVersion = of, ""
				pods = append(pods, pod)
			}
			cache, api := fake.NewClientBuilder().WithObjects(pods...).Build(), fake.NewClientBuilder().WithObjects(pods[0])
			if runs {
				api = api.WithObjects(pods[1])
			}
			c := clusterWithSets()
			set := setOf("x")
			set.Spec.Pods = nil
			set.Annotations = map[string]string{model.NodesAnnotation: `{"ids":[0],"roles":["broker"]}`}
			c.podSets["my-dual"] = *set

			if err := New(Options{Client: cache, Live: api.Build(), Metrics: metrics.New()}).observePods(t.Context(), c.observation); err != nil {
				t.Fatal(err)
			}

			if nodes := c.nodesOf(set).NodeIDs; slices.Contains(nodes, 7) != runs || !slices.Contains(nodes, 0) {
				t.Errorf("the nodes are %v", nodes)
			}
		})
	}
}

func TestTheCacheKeepsTheLabelsThatAreRead(t *testing.T) {
	t.Parallel()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named("data-my-dual-7", map[string]string{model.ClusterLabel: "my", model.PoolLabel: "dual"})}
	beside := &corev1.Pod{ObjectMeta: named("my-beside-1", map[string]string{model.ClusterLabel: "my", model.NameLabel: "my-beside"})}
	c := clusterWithSets()
	c.claims = map[string]*corev1.PersistentVolumeClaim{claim.Name: kept(t, claim)}
	c.others = []*corev1.Pod{kept(t, beside)}
	r := New(Options{Metrics: metrics.New(), Companions: func(model.Cluster) []companion.Companion {
		return []companion.Companion{{Name: "my-beside", Secret: "my-beside-certs"}}
	}})

	r.findCompanions(c.polled)

	if taken := c.taken()["dual"]; !slices.Equal(taken, []model.NodeID{7}) {
		t.Errorf("ids of the pool are %v, and a claim has the data of 7", taken)
	}
	if len(c.companions[0].pods) != 1 {
		t.Error("the pod of a companion is not found")
	}
}
