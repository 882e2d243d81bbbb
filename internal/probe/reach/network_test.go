package reach

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/keyturn/keyturn/internal/kafka/model"
)

func names() Names { return Names{Namespace: "ns", Cluster: "c"} }

func pod(name, address string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID("uid of " + name),
			Labels: map[string]string{
				model.ClusterLabel: "c", model.NameLabel: "c-kafka", model.BrokerRoleLabel: "true", model.ControllerRoleLabel: "false",
			},
		},
		Status: corev1.PodStatus{
			PodIP:             address,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 1}, {RestartCount: 2}},
		},
	}
}

// network knows the pods of a fake API server; dialled is where its way leads.
func network(t *testing.T, dialled *[]string, unreachable string, pods ...*corev1.Pod) *Network {
	t.Helper()
	client := fake.NewClientset()
	for _, pod := range pods {
		if err := client.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	directory, err := watchPods(t.Context(), client, names())
	if err != nil {
		t.Fatal(err)
	}
	return &Network{directory: directory, via: Direct, route: func(_ context.Context, node Node, port string) (net.Conn, error) {
		*dialled = append(*dialled, node.Address+":"+port)
		if node.Address == unreachable {
			return nil, errDead
		}
		near, far := net.Pipe()
		return near, far.Close()
	}}
}

var errDead = errors.New("dead")

func TestNodesAreThePodsOfTheCluster(t *testing.T) {
	t.Parallel()
	stranger := pod("d-pool-0", "10.0.0.9", corev1.ConditionTrue)
	stranger.Labels[model.ClusterLabel] = "d"
	operator := pod("c-entity-operator", "10.0.0.8", corev1.ConditionTrue)
	operator.Labels[model.NameLabel] = "c-entity-operator"
	controller := pod("c-ctl-1", "", corev1.ConditionFalse)
	controller.Labels[model.BrokerRoleLabel], controller.Labels[model.ControllerRoleLabel] = "false", "true"
	var dialled []string
	n := network(t, &dialled, "", pod("c-pool-0", "10.0.0.1", corev1.ConditionTrue), controller, stranger, operator)
	want := []Node{
		{Name: "c-ctl-1", Host: "c-ctl-1.c-kafka-brokers.ns.svc", UID: "uid of c-ctl-1", Controller: true, Restarts: 3},
		{Name: "c-pool-0", Host: "c-pool-0.c-kafka-brokers.ns.svc", UID: "uid of c-pool-0", Address: "10.0.0.1", Ready: true, Broker: true, Restarts: 3},
	}
	if diff := cmp.Diff(want, n.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestDialMapsAdvertisedNamesToPods(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		pod("c-pool-0", "10.0.0.1", corev1.ConditionTrue),
		pod("c-pool-1", "10.0.0.2", corev1.ConditionFalse),
		pod("c-pool-2", "10.0.0.3", corev1.ConditionTrue),
		pod("c-pool-3", "", corev1.ConditionFalse),
	}
	cases := map[string]struct {
		address     string
		unreachable string
		want        []string
		err         error
	}{
		"an advertised name leads to its pod": {
			address: "c-pool-0.c-kafka-brokers.ns.svc:9093", want: []string{"10.0.0.1:9093"},
		},
		"a pod that is not ready is still the one that was asked for": {
			address: "c-pool-1.c-kafka-brokers.ns.svc.cluster.local:9093", want: []string{"10.0.0.2:9093"},
		},
		"a pod without an address is not there": {
			address: "c-pool-3.c-kafka-brokers.ns.svc:9093", err: errNotThere,
		},
		"a pod that does not exist is not there": {
			address: "c-pool-9.c-kafka-brokers.ns.svc:9093", err: errNotThere,
		},
		"the bootstrap service leads to a ready pod": {
			address: "c-kafka-bootstrap.ns.svc:9093", want: []string{"10.0.0.3:9093"},
		},
		"the bootstrap service goes on to the next ready pod": {
			address: "c-kafka-bootstrap.ns.svc:9093", unreachable: "10.0.0.3",
			want: []string{"10.0.0.3:9093", "10.0.0.1:9093"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dialled []string
			n := network(t, &dialled, c.unreachable, pods...)
			conn, err := n.Dial(t.Context(), "tcp", c.address)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if conn != nil {
				_ = conn.Close()
			}
			if diff := cmp.Diff(c.want, dialled); diff != "" {
				t.Errorf("dialled (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBootstrapWithoutABrokerSaysSo(t *testing.T) {
	t.Parallel()
	var dialled []string
	n := network(t, &dialled, "10.0.0.1", pod("c-pool-0", "10.0.0.1", corev1.ConditionTrue))
	if _, err := n.Dial(t.Context(), "tcp", "c-kafka-bootstrap.ns.svc:9093"); !errors.Is(err, errNoBroker) || !errors.Is(err, errDead) {
		t.Errorf("error %v, want that no broker answers, and why", err)
	}
}

func TestARestartedPodIsFoundUnderItsNewAddress(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(pod("c-pool-0", "10.0.0.1", corev1.ConditionTrue))
	directory, err := watchPods(t.Context(), client, names())
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("ns")
	if err := pods.Delete(t.Context(), "c-pool-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(t.Context(), pod("c-pool-0", "10.0.0.77", corev1.ConditionFalse), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if node, err := directory.pod("c-pool-0"); err == nil && node.Address == "10.0.0.77" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the new address was never seen")
		case <-ticker.C:
		}
	}
}
