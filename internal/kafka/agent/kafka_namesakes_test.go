package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// namesakes is a rotation to an authority of the name of the one before it, which
// is not cross-signed.
func namesakes(t *testing.T, spec agenttest.ClusterSpec) *rotation {
	t.Helper()
	r := rotate(t, newest, spec)
	now := time.Now()
	r.coming = agenttest.Authority(t, r.Cluster.Cluster.Certificate().Subject.CommonName, now)
	for i, n := range r.Nodes {
		r.renewed[i] = agenttest.Leaf(t, r.coming, "my-cluster-kafka", now, n.Address)
	}
	return r
}

func (r *rotation) authorities() []pki.Authority { return []pki.Authority{r.Cluster.Cluster, r.coming} }

// TestAuthorityOfTheSameNameIsProvenByItsLeaves replaces an authority by one that a
// listener's names do not tell from it.
func TestAuthorityOfTheSameNameIsProvenByItsLeaves(t *testing.T) {
	t.Parallel()
	r := namesakes(t, agenttest.ClusterSpec{Network: "127.83.26", Nodes: [][]string{dual()}})
	n := r.Nodes[0]

	n.Publish(t, agenttest.Wish{Identity: r.old[0], Cluster: r.both(), Clients: r.clientAnchors()})
	report := r.Await(t, n, "without proof", func(report publication.Report) bool { return report.Reload.Failure != "" })
	if want := []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener}; !slices.Equal(report.Unknown, want) {
		t.Errorf("unknown are %v, want %v: no leaf of the new authority is at hand", report.Unknown, want)
	}
	if !strings.HasPrefix(report.Reload.Failure, "no leaf of the anchor "+agenttest.Fingerprints(r.after()...)[0]) {
		t.Errorf("reload %+v, want the leaf that is missing", report.Reload)
	}

	r.publish(t, r.old, agenttest.Wish{Cluster: r.both(), Proofs: r.authorities()})
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both(), Proofs: r.authorities()})
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Proofs: r.authorities()})
	r.refuses(t, r.old[0])
	r.restartKeepsWhatWasReloaded(t)
}

// TestAnchorOfWhichOnlyTheNameIsLoadedIsNotBelieved gives a server the file of a
// third authority of that name. The reloads are the test's, not the agent's.
func TestAnchorOfWhichOnlyTheNameIsLoadedIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := namesakes(t, agenttest.ClusterSpec{
		Network: "127.83.27", Nodes: [][]string{dual()}, Turn: func(int32) time.Duration { return time.Hour },
	})
	n := r.Nodes[0]
	third := agenttest.Authority(t, r.coming.Certificate().Subject.CommonName, time.Now()).Certificate()
	coming, instead := pki.EncodeBundle(r.coming.Certificate()), pki.EncodeBundle(third)
	started := r.matched(t)
	reloader := reload.New(reload.Options{
		Server: n.Client(t), Directory: n.StoresDir(), Clock: clock.RealClock{}, Patience: 5 * time.Second, Pause: 100 * time.Millisecond,
		Tell: func([]publication.Publication) {},
		Write: func(name string, data []byte) error {
			written := strings.ReplaceAll(string(data), string(coming), string(instead))
			return os.WriteFile(filepath.Join(n.StoresDir(), name), []byte(written), 0o600)
		},
	}, started)
	newer := func() bool { return false }
	if outcome := reloader.Step(t.Context(), started, newer); !outcome.Complete {
		t.Fatalf("outcome %+v, want nothing to do", outcome)
	}

	n.Publish(t, agenttest.Wish{Identity: r.old[0], Cluster: r.both(), Clients: r.clientAnchors(), Proofs: r.authorities()})
	outcome := reloader.Step(t.Context(), r.matched(t), newer)
	want := "refuses a leaf of the anchor " + agenttest.Fingerprints(r.after()...)[0]
	if outcome.Complete || !outcome.Refused || !strings.Contains(outcome.Failure, want) {
		t.Errorf("outcome %+v, want %q", outcome, want)
	}
	for _, l := range []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener} {
		seen, err := n.Look(t.Context(), l, r.old[0])
		if err != nil || len(seen.Authorities) != 2 {
			t.Errorf("%s names %d authorities, %v; want two of one name", l, len(seen.Authorities), err)
		}
		if state := reloader.States()[l]; state.Known() {
			t.Errorf("%s is said to have %+v, want nothing", l, state.Report())
		}
	}

	instead = coming
	if outcome := reloader.Step(t.Context(), r.matched(t), newer); !outcome.Complete {
		t.Errorf("outcome %+v, want it loaded", outcome)
	}
	if state := reloader.States()[contract.ReplicationListener]; !slices.ContainsFunc(state.Trusts, r.coming.Certificate().Equal) {
		t.Errorf("the listener is said to have %+v, want both", state.Report())
	}
}

// matched is what is mounted into the pod of the only node.
func (r *rotation) matched(t *testing.T) stores.Matched {
	t.Helper()
	matched, err := stores.Match(r.Nodes[0].Mounted)
	if err != nil {
		t.Fatal(err)
	}
	return matched
}
