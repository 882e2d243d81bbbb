package reporttest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Limits of waiting for what an agent does in its own time. A kubelet may take more
// than a minute until it mounts what it is told to, and a server as long to start.
const (
	settleLimit = 5 * time.Minute
	settlePause = 100 * time.Millisecond
)

// Subject is a node that is broker and controller, as it was first started. Only the
// suite publishes to it.
type Subject struct {
	// Report asks the agent.
	Report func(ctx context.Context) (publication.Report, error)
	// Name is that of the node, and of the files with its leaf.
	Name string
	// Names are those that its leaf has to bear, and Signer has signed it: all listeners
	// of the cluster's own domain trust only that.
	Names  []string
	Signer pki.Authority
	// Cluster are the listeners of that domain, and Clients one that belongs to another.
	// All of them present the node's own leaf.
	Cluster []publication.Role
	Clients publication.Role
	// Mounted is what the node was started on.
	Mounted stores.Mounted
	// Mount brings those volumes to a content whose directories are not nil, sooner or
	// later.
	Mount func(t *testing.T, content stores.Mounted)
	// Work lets an agent do what there is to do, if it does not by itself.
	Work func()
	// Restart ends the server, and returns when another runs in the same pod.
	Restart func(t *testing.T)
	// Now is the clock of the node's machine.
	Now func() time.Time
}

// Run checks an agent through the life of a node. It asks for one subject.
func Run(t *testing.T, factory func(t *testing.T) Subject) {
	t.Helper()
	b := newBench(t, factory(t))
	for _, step := range []struct {
		name  string
		check func(*testing.T, *bench)
	}{
		{"it tells what its server was started with, and every certificate of it", startIsTold},
		{"of a publication that is half mounted it says that none is", halfIsNone},
		{"what is mounted whole is loaded without a restart, where it has changed", wholeIsLoaded},
		{"a leaf is presented with the chain that is published", chainIsPresented},
		{"a leaf that is not valid yet is not loaded, and it says so", earlyIsNotLoaded},
		{"what can be loaded follows, and the failure is forgotten", goodFollows},
		{"the Raft client keeps what its process was started with", raftStays},
		{"another process finds what is mounted, and the settings of before", restartFindsMounted},
		{"what is to be loaded by a restart is not loaded before", nothingBeforeRestart},
		{"after it, no settings are left", settingsAreGone},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.check(t, b) }) {
			return // each begins where the one before has ended
		}
	}
}

func startIsTold(t *testing.T, b *bench) {
	report := b.until(t, "nothing is left to be reloaded", b.settled)
	b.compare(t, report, b.published, nil)
	b.named(t, report)
	if report.StartedAt.IsZero() {
		t.Error("it does not say when its server was started")
	}
}

func halfIsNone(t *testing.T, b *bench) {
	before := b.report(t)
	b.next(t, b.leaf(t), b.both(), nil)
	b.mount(t, stores.Mounted{Node: b.mounted.Node})
	half := b.until(t, "it says that the mounts are between two states", func(r publication.Report) bool { return r.Mounted == nil })
	if half.Revision != before.Revision {
		t.Errorf("revision %d, want %d as before", half.Revision, before.Revision)
	}
	for role, said := range before.Roles {
		if role == publication.AgentRole {
			continue
		}
		if diff := cmp.Diff(said, half.Roles[role]); diff != "" {
			t.Errorf("%s (-before +half mounted):\n%s", role, diff)
		}
	}
	if got, want := half.Roles[publication.AgentRole].Presents, b.published.Identities[publication.NodeIdentity]; got != want {
		t.Errorf("the agent itself presents %s, want %s: that is mounted", got, want)
	}
}

func wholeIsLoaded(t *testing.T, b *bench) {
	before := b.report(t)
	b.mount(t, stores.Mounted{ClusterTrust: b.mounted.ClusterTrust})
	report := b.until(t, "it is loaded", b.settled)
	b.compare(t, report, b.published, b.all())
	b.named(t, report)
	b.sameProcess(t, before, report)
}

func chainIsPresented(t *testing.T, b *bench) {
	before := b.report(t)
	b.publish(t, b.renewed(t), b.both(), nil)
	report := b.until(t, "it is loaded", b.settled)
	if got := report.Roles[b.Clients].Chain; len(got) != 1 {
		t.Errorf("%s presents %d certificates with its leaf, want the one that is published", b.Clients, len(got))
	}
	b.compare(t, report, b.published, b.all())
	b.named(t, report)
	b.sameProcess(t, before, report)
}

func earlyIsNotLoaded(t *testing.T, b *bench) {
	before := b.report(t)
	b.publish(t, b.early(t), b.both(), nil)
	report := b.until(t, "it fails", func(r publication.Report) bool {
		return r.Reload.Revision == b.published.Revision && r.Reload.Failure != ""
	})
	if !report.Reload.Early || report.Reload.Refused {
		t.Errorf("reload %+v, want one that waits for a date", report.Reload)
	}
	if report.Mounted == nil || report.Mounted.Revision != b.published.Revision {
		t.Errorf("it says that %+v is mounted, want revision %d", report.Mounted, b.published.Revision)
	}
	b.unchanged(t, before, report)
}

func goodFollows(t *testing.T, b *bench) {
	before := b.report(t)
	b.publish(t, b.renewed(t), b.both(), nil)
	report := b.until(t, "it is loaded", b.settled)
	b.compare(t, report, b.published, b.all())
	b.sameProcess(t, before, report)
}

func raftStays(t *testing.T, b *bench) {
	before := b.report(t)
	b.publish(t, b.identity, b.after(), b.both())
	report := b.until(t, "it is loaded", b.settled)
	b.compare(t, report, b.published, b.all())
	b.sameProcess(t, before, report)
}

func restartFindsMounted(t *testing.T, b *bench) {
	before := b.report(t)
	b.Restart(t)
	report := b.until(t, "nothing is left to be reloaded, and its settings are known", func(r publication.Report) bool {
		return b.settled(r) && r.Roles[b.Clients].Dynamic
	})
	if !report.StartedAt.After(before.StartedAt) {
		t.Errorf("started at %s, want a time after %s", report.StartedAt, before.StartedAt)
	}
	b.compare(t, report, b.published, b.all())
	raft := report.Roles[contract.RaftRole]
	if raft.Presents != b.published.Identities[publication.NodeIdentity] || !slices.Equal(raft.Trusts, b.published.Trust[contract.RaftRole]) || raft.Dynamic {
		t.Errorf("the Raft client is said to have %+v, want what is mounted for it", raft)
	}
}

func nothingBeforeRestart(t *testing.T, b *bench) {
	before := b.report(t)
	b.loading = publication.LoadByRestart
	b.publish(t, b.renewed(t), b.both(), nil)
	report := b.until(t, "it is mounted", func(r publication.Report) bool {
		return r.Mounted != nil && r.Mounted.Revision == b.published.Revision
	})
	b.unchanged(t, before, report)
}

func settingsAreGone(t *testing.T, b *bench) {
	b.Restart(t)
	report := b.until(t, "its settings are deleted", func(r publication.Report) bool {
		return b.settled(r) && !slices.ContainsFunc(b.all(), func(l publication.Role) bool { return r.Roles[l].Dynamic })
	})
	b.compare(t, report, b.published, nil)
}
