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
	// It returns the client URL of the member.
	Start(t *testing.T, name, peerURL string) string
	// Client connects to the members that were started.
	Client(t *testing.T) admin.Client
}

// settle is how long a promotion is tried: the leader decides when a learner has caught up.
const settle = 30 * time.Second

// Run checks a cluster from its first member to its second voter, and back.
func Run(t *testing.T, cluster Cluster, first, second string) {
	t.Helper()
	firstURL := cluster.Start(t, "first", first)
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
	secondURL := cluster.Start(t, "second", second)
	promote(t, client, learner)
	if err := client.Promote(t.Context(), learner); err != nil && !errors.Is(err, admin.ErrNotReady) {
		t.Errorf("promoting a voter: %v", err)
	}
	members = want(t, client, admin.Member{Name: "first", PeerURLs: []string{first}}, admin.Member{Name: "second", PeerURLs: []string{second}})
	client = cluster.Client(t)
	lead(t, client, firstURL, members[0].ID, members[0].ID)
	wantNoAlarm(t, client)
	if err := client.MoveLeader(t.Context(), secondURL, members[0].ID); !errors.Is(err, admin.ErrNotReady) {
		t.Errorf("moving the leader by a member that does not lead: %v, want that etcd is not ready", err)
	}
	if err := client.MoveLeader(t.Context(), firstURL, members[1].ID); err != nil {
		t.Errorf("moving the leader: %v", err)
	}
	lead(t, client, secondURL, members[1].ID, members[1].ID)
	remove(t, client, members[0].ID)
	want(t, client, admin.Member{Name: "second", PeerURLs: []string{second}})
	remove(t, client, members[0].ID) // what was cut off is done again
	if status, err := client.Status(t.Context(), "http://127.0.0.1:1"); err == nil {
		t.Errorf("nothing has the status %+v", status)
	}
}

func wantNoAlarm(t *testing.T, client admin.Client) {
	t.Helper()
	if alarms, err := client.Alarms(t.Context()); err != nil || len(alarms) > 0 {
		t.Errorf("alarms %v, %v of a new cluster", alarms, err)
	}
}

// lead waits until the member at a URL is the one of an id, and knows the leader.
func lead(t *testing.T, client admin.Client, url string, id, leader uint64) {
	t.Helper()
	for deadline := time.Now().Add(settle); ; {
		status, err := client.Status(t.Context(), url)
		if err == nil && status.ID == id && status.Leader == leader && status.Applied > 0 && status.Received >= status.Applied && !status.HasAlarm && status.Size >= status.InUse && status.InUse > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("member %x has status %+v, %v, want that %x leads", id, status, err, leader)
		}
	}
}

// remove removes a member once etcd finds the others connected long enough. The one that is removed may hang up.
func remove(t *testing.T, client admin.Client, id uint64) {
	t.Helper()
	for deadline := time.Now().Add(settle); ; {
		err := client.Remove(t.Context(), id)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("removing member %x: %v", id, err)
		}
	}
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
