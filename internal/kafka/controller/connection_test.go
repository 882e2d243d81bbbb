package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// Whom a broker may name is who may be one: what is asked for, and what has not gone yet.
func TestNodesThatAreLeavingMayBeNamedByOthersAndAreNotAskedFirst(t *testing.T) {
	t.Parallel()
	c := clusterOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{"my-gone-4": {}})
	c.cluster = model.Cluster{
		Names: model.Names{Cluster: "my", Namespace: "ns"},
		Nodes: []model.Node{
			{ID: 0, Pod: "my-dual-0", Roles: model.Roles{Broker: true, Controller: true}},
			{ID: 3, Pod: "my-turned-3", Roles: model.Roles{Controller: true}},
		},
		Leaving: []model.Leaving{
			{ID: 3, Pod: "my-turned-3", What: model.LeavingBrokerRole, Broker: true},
			{ID: 4, Pod: "my-gone-4", What: model.LeavingNode, Broker: true},
		},
	}
	host := func(pod string) string { return pod + ".my-kafka-brokers.ns.svc" }

	got := c.access()

	if want := []string{host("my-dual-0") + ":9091"}; !slices.Equal(got.Brokers, want) {
		t.Errorf("brokers that are asked are %v, want %v", got.Brokers, want)
	}
	if want := []string{host("my-turned-3") + ":9091", host("my-gone-4") + ":9091"}; !slices.Equal(got.Leaving, want) {
		t.Errorf("brokers that others may name are %v, want %v", got.Leaving, want)
	}
}
