package members_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/probe/members"
)

func names() model.Names { return model.Names{Namespace: "etcd", Cluster: "my-cluster"} }

// A watch would try again without end.
func TestWithoutTheRightToListPodsNothingIsWaitedFor(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	if _, err := members.Follow(t.Context(), client, &rest.Config{}, names()); !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want that the right is missing", err)
	}
}

func TestMembersThatVoteAndHaveAnAddressAreReached(t *testing.T) {
	t.Parallel()
	pod := func(name, role, address string) *corev1.Pod {
		labels := map[string]string{model.ClusterLabel: "my-cluster", model.RoleLabel: role}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: name, Labels: labels}, Status: corev1.PodStatus{PodIP: address}}
	}
	client := fake.NewClientset(pod("my-cluster-0", "voter", "192.0.2.1"), pod("my-cluster-1", "learner", "192.0.2.2"), pod("my-cluster-2", "voter", ""))
	voters, err := members.Follow(t.Context(), client, &rest.Config{}, names())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"my-cluster-0.my-cluster-peer.etcd.svc:2379"}, voters.Endpoints()); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"my-cluster-0", "my-cluster-2"}, voters.Names()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if _, err := voters.Dial(t.Context(), "my-cluster-2.my-cluster-peer.etcd.svc:2379"); err == nil {
		t.Error("a member without an address is reached")
	}
}
