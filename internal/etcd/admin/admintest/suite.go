package admintest

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/admin"
)

// Cluster is a cluster without a member.
type Cluster interface {
	// Start starts the server of a member at a peer URL. The first one makes the cluster, all others join it.
	Start(t *testing.T, name, peerURL string)
	// Client connects to the first member.
	Client(t *testing.T) admin.Client
}

// settle is how long a promotion is tried: the leader decides when a learner has caught up.
const settle = 30 * time.Second

// Run checks a cluster from its first member to its second voter.
func Run(t *testing.T, cluster Cluster, first, second string) {
	t.Helper()
	cluster.Start(t, "first", first)
	client := cluster.Client(t)
	want(t, client, admin.Member{Name: "first", PeerURLs: []string{first}})
	for range 2 { // what was cut off is done again
		if err := client.AddLearner(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	members := want(t, client, admin.Member{Name: "first", PeerURLs: []string{first}}, admin.Member{PeerURLs: []string{second}, IsLearner: true})
	learner := members[1].ID
	if err := client.AddLearner(t.Context(), "http://127.0.0.1:1"); !errors.Is(err, admin.ErrNotReady) {
		t.Errorf("adding a second learner: %v, want that etcd is not ready", err)
	}
	if err := client.Promote(t.Context(), learner); !errors.Is(err, admin.ErrNotReady) {
		t.Errorf("promoting a learner that has not started: %v, want that etcd is not ready", err)
	}
	if err := client.Promote(t.Context(), learner+1); err == nil || errors.Is(err, admin.ErrNotReady) {
		t.Errorf("promoting a member that does not exist: %v, want another error", err)
	}
	cluster.Start(t, "second", second)
	promote(t, client, learner)
	if err := client.Promote(t.Context(), learner); err != nil && !errors.Is(err, admin.ErrNotReady) {
		t.Errorf("promoting a voter: %v", err)
	}
	want(t, client, admin.Member{Name: "first", PeerURLs: []string{first}}, admin.Member{Name: "second", PeerURLs: []string{second}})
}

// want fails the test unless the members are these, in any order of their ids, and returns them in this order.
func want(t *testing.T, client admin.Client, wanted ...admin.Member) []admin.Member {
	t.Helper()
	members, err := client.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(members) != len(wanted) {
		t.Fatalf("members are %+v, want %+v", members, wanted)
	}
	sorted := make([]admin.Member, len(wanted))
	for i, each := range wanted {
		for _, member := range members {
			if member.PeerURLs[0] == each.PeerURLs[0] {
				sorted[i] = member
			}
		}
		if sorted[i].ID == 0 || sorted[i].Name != each.Name || sorted[i].IsLearner != each.IsLearner {
			t.Fatalf("members are %+v, want %+v", members, wanted)
		}
	}
	return sorted
}

func promote(t *testing.T, client admin.Client, learner uint64) {
	t.Helper()
	for deadline := time.Now().Add(settle); ; {
		err := client.Promote(t.Context(), learner)
		if err == nil {
			return
		}
		if !errors.Is(err, admin.ErrNotReady) || time.Now().After(deadline) {
			t.Fatalf("promoting a learner that has started: %v", err)
		}
	}
}
