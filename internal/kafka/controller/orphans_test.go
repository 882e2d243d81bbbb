package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
)

// strewn is an API server with Secrets under names of nodes that never were, of that size.
func strewn(count, size int) client.Client {
	var objects []client.Object
	for i := range count {
		objects = append(objects, &corev1.Secret{ObjectMeta: named(fmt.Sprintf("my-x-%d", i), map[string]string{model.ClusterLabel: "my"})})
	}
	fill := func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		err := api.Get(ctx, key, object, options...)
		if secret, is := object.(*corev1.Secret); is && err == nil {
			secret.Data = map[string][]byte{"junk": make([]byte, size)}
		}
		return err
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{Get: fill})
}

func TestSecretsOfNodesThatNeverWereAreKeptWithinBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count, size int
		// atMost is how many may be kept.
		atMost int
		told   bool
	}{
		"a few of the size of a node's":   {5, 30 << 10, 5, false},
		"one that is larger than any":     {1, 1 << 20, 0, true},
		"many that are large":             {150, 1 << 20, 0, true},
		"more than nodes can have of all": {200, 250 << 10, maxTraces/(250<<10) + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := strewn(c.count, c.size)
			r := New(Options{Client: live, Live: live, Metrics: metrics.New()})
			p := clusterWithSets()
			if err := r.observeSecrets(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}
			if len(p.secrets) > c.atMost || !c.told && len(p.secrets) != c.count {
				t.Errorf("%d of %d Secrets are kept, want at most %d", len(p.secrets), c.count, c.atMost)
			}
			p.noteHidden()
			if told := len(p.notes) == 1 && strings.Contains(p.notes[0].Message, "my-x-"); told != c.told {
				t.Errorf("notes are %v, want one that names them: %t", p.notes, c.told)
			}
		})
	}
}

func TestARecordOfMoreNodesThanThereCanBeIsNotBelieved(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]int{1000: 1000, 1001: 0, 38_000: 0} {
		ids := make([]model.NodeID, 0, count)
		for i := range count {
			ids = append(ids, model.NodeID(i))
		}
		text, err := model.RecordedNodes{IDs: ids}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		set := setOf("x")
		set.Spec.Pods = nil
		set.Annotations = map[string]string{model.NodesAnnotation: text}
		if got := clusterWithSets().nodesOf(set).NodeIDs; len(got) != want {
			t.Errorf("of %d recorded nodes %d are believed, want %d", count, len(got), want)
		}
	}
}

func TestAPinWithManyRolesDoesNotRaiseTheBoundOfAnAnswer(t *testing.T) {
	t.Parallel()
	pin := publication.Publication{Trust: map[publication.Role][]string{}}
	for i := range 20_000 {
		pin.Trust[publication.Role(fmt.Sprintf("%x", i))] = nil
	}
	text, err := pin.Encode()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{agent.PinAnnotation: string(text)}}}
	if limit := publication.MaxReport(clusterWithSets().rolesOf(pod)); limit > 1<<20 {
		t.Errorf("%d bytes are read of its agent's answer", limit)
	}
}

func TestAConfigMapOfSomebodyElseTellsNothingOfTheQuorum(t *testing.T) {
	t.Parallel()
	ownedBy := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: uid, Controller: new(true)}}
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		writer string
		want   int
	}{
		"the Kafka's":                             {ownedBy("1"), "anybody", 2},
		"somebody else's":                         {ownedBy("another"), string(fieldOwner), 0},
		"the operator's, whose marks were taken":  {nil, string(fieldOwner), 2},
		"nobody's, and the operator knows it not": {nil, "anybody", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &corev1.ConfigMap{ObjectMeta: named("my-dual-0", nil), Data: map[string]string{
				contract.ServerConfigKey: "controller.quorum.voters=0@a:9090,1@b:9090\n",
			}}
			config.OwnerReferences, config.ManagedFields = c.owners, []metav1.ManagedFieldsEntry{writtenBy(c.writer)}
			live := fake.NewClientBuilder().WithObjects(config).WithReturnManagedFields().Build()
			p := clusterWithSets()
			p.podSets["my-dual"] = *setOf("x")
			p.pools = []*pool{{KafkaNodePool: kafkav1.KafkaNodePool{
				ObjectMeta: named("ctrl", nil), Spec: kafkav1.KafkaNodePoolSpec{Roles: []kafkav1.ProcessRole{kafkav1.RoleController}},
			}}}
			voters, err := New(Options{Client: live, Live: live, Metrics: metrics.New()}).knownVoters(t.Context(), p.observation)
			if err != nil || len(voters) != c.want {
				t.Errorf("voters are %v (%v), want %d", voters, err, c.want)
			}
		})
	}
}

func TestASecretThatNothingMarksIsBelievedIfTheOperatorWroteIt(t *testing.T) {
	t.Parallel()
	for writer, want := range map[string]int{string(fieldOwner): 1, "anybody": 0} {
		for name, seek := range map[string]func(*Reconciler, context.Context, *observation) error{
			"my-cluster-ca-cert": func(r *Reconciler, ctx context.Context, o *observation) error {
				return r.addSecret(ctx, o, "my-cluster-ca-cert")
			},
			"my-x-0": func(r *Reconciler, ctx context.Context, o *observation) error {
				return r.addOrphanSecrets(ctx, o, []orphanCandidate{{name: "my-x-0"}})
			},
		} {
			secret := &corev1.Secret{ObjectMeta: named(name, nil)}
			secret.ManagedFields = []metav1.ManagedFieldsEntry{writtenBy(writer)}
			live := fake.NewClientBuilder().WithObjects(secret).WithReturnManagedFields().Build()
			c := clusterWithSets()
			c.secrets = map[string]corev1.Secret{}
			if err := seek(New(Options{Live: live, Metrics: metrics.New()}), t.Context(), c.observation); err != nil || len(c.secrets) != want {
				t.Errorf("Secret %s, written by %s: %d are believed (%v), want %d", name, writer, len(c.secrets), err, want)
			}
		}
	}
}

// Of other ConfigMaps under names of nodes nothing is concluded.
func TestAConfigMapIsATraceOfANodeIfItIsLabelledWithItsPool(t *testing.T) {
	t.Parallel()
	ofKafka := []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}}
	for pool, want := range map[string]int{"x": 1, "": 0} {
		config := metadataObject(configMapKind())
		config.ObjectMeta = named("my-x-7", map[string]string{model.ClusterLabel: "my"})
		if pool != "" {
			config.Labels[model.PoolLabel] = pool
		}
		config.OwnerReferences = ofKafka
		c := clusterWithSets()
		c.objects = map[objectID]*metav1.PartialObjectMetadata{{configMapKind().GroupKind(), "my-x-7"}: kept(t, config)}
		if traces := c.orphanCandidates(); len(traces) != want {
			t.Errorf("of a ConfigMap with the pool %q there are the traces %v, want %d", pool, traces, want)
		}
	}
}

// What only has the name of a set that is gone owns nothing.
func TestOfTheSetsThatPodsNameThoseAreLookedForThatMayOwnNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod   string
		owner metav1.OwnerReference
		taken bool
	}{
		"that owns the pod of a node":       {"my-dual-0", metav1.OwnerReference{Kind: podSetKind, Name: "my-dual", UID: "set"}, true},
		"that has followed another":         {"my-dual-0", metav1.OwnerReference{Kind: podSetKind, Name: "my-dual", UID: "before"}, false},
		"that has the name of another":      {"my-dual-0", metav1.OwnerReference{Kind: "ReplicaSet", Name: "my-dual", UID: "set"}, false},
		"that owns a pod that is no node's": {"any-pod", metav1.OwnerReference{Kind: podSetKind, Name: "my-dual", UID: "set"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf("x")
			set.Annotations[model.NodesAnnotation] = "{}"
			live := storing(t, set)
			c.owner.Controller = new(true)
			pod := corev1.Pod{ObjectMeta: named(c.pod, nil)}
			pod.OwnerReferences = []metav1.OwnerReference{c.owner}
			p := clusterWithSets()

			if err := New(Options{Live: live, Metrics: metrics.New()}).addOwners(t.Context(), p.observation, []corev1.Pod{pod}); err != nil {
				t.Fatal(err)
			}

			if _, taken := p.podSets["my-dual"]; taken != c.taken {
				t.Errorf("the set is taken: %t, want %t", taken, c.taken)
			}
		})
	}
}
