package controller

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// afterScaleDown is a reconcile over a cluster with node 0, whose pod is not there now. Node 3
// is gone, and node 6 is gone but for its pod. A companion stands beside them.
func afterScaleDown() *applied {
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{"my-dual-6": {}})
	c.cluster = model.Cluster{
		Nodes: []model.Node{{ID: 0, Pool: "dual", Pod: "my-dual-0"}},
		Pools: []model.Pool{{Name: "dual", Volumes: []model.Volume{{Name: "data", Type: kafkav1.StoragePersistentClaim}}}},
	}
	c.companions = []observedCompanion{{Companion: companion.Companion{Name: "my-exporter", Secret: "my-exporter-certs"}}}
	c.secrets, c.objects = map[string]corev1.Secret{}, map[objectID]*metav1.PartialObjectMetadata{}
	return c
}

func ownedBySmallKafka() []metav1.OwnerReference {
	kafka := smallKafka()
	return []metav1.OwnerReference{ownerOf(kafkav1.KindKafka, kafka.Name, string(kafka.UID))}
}

func ownerOf(kind, name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kafkav1.GroupVersion.String(), Kind: kind, Name: name, UID: types.UID(uid)}
}

func TestSecretsOfNodesThatAreGoneGoWithThem(t *testing.T) {
	t.Parallel()
	ofNode, now := map[string][]byte{agent.PublicationKey: nil}, metav1.NewTime(noon())
	c := afterScaleDown()
	for name, secret := range map[string]corev1.Secret{
		"my-dual-0":         {Data: ofNode},
		"my-dual-3":         {Data: ofNode},
		"my-dual-4":         {},
		"my-dual-5":         {Data: ofNode, ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}},
		"my-dual-6":         {Data: ofNode},
		"my-exporter-certs": {Data: ofNode},
	} {
		secret.Name = name
		c.secrets[name] = secret
	}

	if left := listedNames(c.leftBehind()); !slices.Equal(left, []string{"my-dual-3"}) {
		t.Errorf("%v go, want the Secret of node 3", left)
	}
}

func TestObjectsOfNodesThatAreGoneGoIfTheKafkaOwnsThem(t *testing.T) {
	t.Parallel()
	ours, now := ownedBySmallKafka(), metav1.NewTime(noon())
	deleted := map[string]string{deleteClaimAnnotation: "true"}
	for name, c := range map[string]struct {
		kind   schema.GroupVersionKind
		object metav1.ObjectMeta
		goes   bool
	}{
		"the ConfigMap of a node that is gone":      {configMapKind(), metav1.ObjectMeta{Name: "my-dual-3", OwnerReferences: ours}, true},
		"that of a node":                            {configMapKind(), metav1.ObjectMeta{Name: "my-dual-0", OwnerReferences: ours}, false},
		"that of a node whose pod still runs":       {configMapKind(), metav1.ObjectMeta{Name: "my-dual-6", OwnerReferences: ours}, false},
		"one that nobody owns":                      {configMapKind(), metav1.ObjectMeta{Name: "my-dual-3", Labels: map[string]string{model.ClusterLabel: "my"}}, false},
		"one that is going already":                 {configMapKind(), metav1.ObjectMeta{Name: "my-dual-3", OwnerReferences: ours, DeletionTimestamp: &now}, false},
		"a ConfigMap that is no node's":             {configMapKind(), metav1.ObjectMeta{Name: "my-trust", OwnerReferences: ours}, false},
		"a claim that is to go with its node":       {claimKind(), metav1.ObjectMeta{Name: "data-my-dual-3", OwnerReferences: ours, Annotations: deleted}, true},
		"that of a node that exists":                {claimKind(), metav1.ObjectMeta{Name: "data-my-dual-0", OwnerReferences: ours, Annotations: deleted}, false},
		"a claim that is to stay":                   {claimKind(), metav1.ObjectMeta{Name: "data-my-dual-3", OwnerReferences: ours, Annotations: map[string]string{deleteClaimAnnotation: "false"}}, false},
		"a claim of which nothing is said":          {claimKind(), metav1.ObjectMeta{Name: "data-my-dual-3", OwnerReferences: ours}, false},
		"a claim that was taken from the Kafka":     {claimKind(), metav1.ObjectMeta{Name: "data-my-dual-3", Annotations: deleted}, false},
		"an object of a kind that no node has":      {networkPolicyKind(), metav1.ObjectMeta{Name: "my-dual-3", OwnerReferences: ours, Annotations: deleted}, false},
		"one of a Kafka of the name that there was": {configMapKind(), metav1.ObjectMeta{Name: "my-dual-3", OwnerReferences: []metav1.OwnerReference{ownerOf(kafkav1.KindKafka, "my", "before")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := afterScaleDown()
			p.objects[objectID{c.kind.GroupKind(), c.object.Name}] = &metav1.PartialObjectMetadata{ObjectMeta: c.object}
			if left := p.leftBehind(); (len(left) == 1) != c.goes {
				t.Errorf("%v go", listedNames(left))
			}
		})
	}
}

func listedNames(objects []client.Object) []string {
	var names []string
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	slices.Sort(names)
	return names
}

// A claim is known by its name: whatever else carries the label of the cluster is not a
// node's, and must neither be asked about nor go with one.
func TestClaimsAreThoseThatAreNamedAfterNodesAndNobodyElseOwns(t *testing.T) {
	t.Parallel()
	labels := map[string]string{model.ClusterLabel: "my"}
	claim := func(name string, owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: name, Labels: labels, OwnerReferences: owners}}
	}
	r := New(Options{Client: fake.NewClientBuilder().WithObjects(
		claim("data-my-dual-0"), claim("data-1-my-dual-0", ownedBySmallKafka()...), claim("data-my-dual-3"),
		claim("backup-of-my-dual-0"), claim("data-my-dual"), claim("data-x-my-dual-0"),
		claim("data-my-dual-1", ownerOf("KafkaConnect", "connect", "another")),
	).Build(), Metrics: metrics.New()})
	o := &observation{kafka: *smallKafka(), objects: map[objectID]*metav1.PartialObjectMetadata{}}

	if err := r.observeClaims(t.Context(), o); err != nil {
		t.Fatal(err)
	}

	want := []string{"data-1-my-dual-0", "data-my-dual-0", "data-my-dual-3"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(o.claims))); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if o.objects[objectID{claimKind().GroupKind(), name}] == nil {
			t.Errorf("claim %s is not among the objects of the cluster", name)
		}
	}
}

// What belongs to a node that is asked for was written since the reconcile began.
func TestNothingIsTakenAwayOnceTheKafkaIsAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*kafkav1.Kafka)
		goes   bool
	}{
		"it is the same":            {func(*kafkav1.Kafka) {}, true},
		"somebody asks for more":    {func(k *kafkav1.Kafka) { k.Generation++ }, false},
		"it was made a second time": {func(k *kafkav1.Kafka) { k.UID = "later" }, false},
		"it is gone":                {func(k *kafkav1.Kafka) { k.Name = "another" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := afterScaleDown()
			now := p.kafka.DeepCopy()
			c.change(now)
			left := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-dual-3"}}
			scheme, _ := known(t)
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(now, left).Build()
			r := New(Options{Client: server, Live: server, Metrics: metrics.New()})

			if err := server.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil {
				t.Fatal(err)
			}

			err := r.takeAway(t.Context(), p.observation, left)

			exists := server.Get(t.Context(), client.ObjectKeyFromObject(left), &corev1.Secret{}) == nil
			if exists == c.goes {
				t.Errorf("the Secret exists: %t (%v)", exists, err)
			}
		})
	}
}
