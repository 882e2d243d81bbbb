package controller

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

func policyID() objectID {
	return objectID{networkPolicyKind().GroupKind(), "my-network-policy-kafka"}
}

// withPolicies is a cluster for which policies are made, or not.
func withPolicies(t *testing.T, policies *model.NetworkPolicies) model.Cluster {
	t.Helper()
	return ofNodes(t, 1, policies)
}

// ofNodes is a cluster of one pool.
func ofNodes(t *testing.T, replicas int32, policies *model.NetworkPolicies) model.Cluster {
	t.Helper()
	cluster, findings := model.Resolve(model.Input{
		Kafka: &kafkav1.Kafka{
			ObjectMeta: metav1.ObjectMeta{Name: "my", Namespace: "kafka", UID: "kafka-uid"},
			Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{Listeners: []kafkav1.Listener{
				{Name: "tls", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true},
			}}},
		},
		Pools: []kafkav1.KafkaNodePool{{
			ObjectMeta: metav1.ObjectMeta{Name: "dual", Namespace: "kafka", Labels: map[string]string{model.ClusterLabel: "my"}},
			Spec: kafkav1.KafkaNodePoolSpec{
				Replicas: replicas, Roles: []kafkav1.ProcessRole{kafkav1.RoleController, kafkav1.RoleBroker},
				Storage: kafkav1.Storage{Type: kafkav1.StorageEphemeral},
			},
		}},
		Settings: model.Settings{
			Versions: []model.KafkaVersion{{Name: "4.3.1", Image: "kafka"}}, AgentImage: "agent", NetworkPolicies: policies,
		},
	})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestAClusterHasAPolicyUnlessTheyAreSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies *model.NetworkPolicies
		want     bool
	}{
		"switched on":  {&model.NetworkPolicies{OperatorNamespace: "keyturn"}, true},
		"switched off": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := objectsOf(withPolicies(t, c.policies))
			if got := slices.ContainsFunc(objects, func(o intended) bool { return o.objectID == policyID() }); got != c.want {
				t.Errorf("it has one: %t", got)
			}
		})
	}
}

func TestAPolicyGoesWhenPoliciesAreSwitchedOff(t *testing.T) {
	t.Parallel()
	owned := []metav1.OwnerReference{{Kind: "Kafka", Name: "my", UID: "kafka-uid"}}
	for name, c := range map[string]struct {
		policies *model.NetworkPolicies
		found    *metav1.ObjectMeta
		goes     bool
	}{
		"it goes":                          {nil, &metav1.ObjectMeta{OwnerReferences: owned}, true},
		"it stays while they are on":       {&model.NetworkPolicies{}, &metav1.ObjectMeta{OwnerReferences: owned}, false},
		"it is not there":                  {nil, nil, false},
		"it is going":                      {nil, &metav1.ObjectMeta{OwnerReferences: owned, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}, false},
		"somebody made it with our label":  {nil, &metav1.ObjectMeta{Labels: map[string]string{model.ClusterLabel: "my"}}, false},
		"a Kafka of that name was deleted": {nil, &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Kafka", Name: "my", UID: "older"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &desired{observation: &observation{objects: map[objectID]*metav1.PartialObjectMetadata{}}, cluster: withPolicies(t, c.policies)}
			p.kafka.Name, p.kafka.UID = "my", types.UID("kafka-uid")
			if c.found != nil {
				p.objects[policyID()] = &metav1.PartialObjectMetadata{ObjectMeta: *c.found}
			}
			if got := p.formerPolicy(); (len(got) == 1) != c.goes {
				t.Errorf("%d policies go", len(got))
			}
		})
	}
}
