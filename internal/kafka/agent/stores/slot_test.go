package stores_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// remainder is a world in the middle of a replacement: the Raft client still
// needs the old anchor, the listeners do not.
func remainder(t *testing.T, roles ...string) (w *world, coming pki.Authority) {
	t.Helper()
	now := time.Now()
	w, coming = newWorld(t), agenttest.Authority(t, "cluster-ca v1", now)
	cross, err := pki.CrossSign(w.clusterCA, coming.Certificate(), now)
	if err != nil {
		t.Fatal(err)
	}
	w.node = agenttest.Leaf(t, coming, "my-cluster-kafka", now, podName)
	w.node.Chain = append(w.node.Chain, cross)
	agenttest.PutIdentity(w.Node, podName, w.node)
	w.ClusterTrust = agenttest.TrustDirectory(w.clusterCA.Certificate(), coming.Certificate())
	config, err := contract.ParseConfig(w.Config[contract.AgentConfigKey])
	if err != nil {
		t.Fatal(err)
	}
	if len(roles) > 0 {
		config.Roles = roles
	}
	w.Config = agenttest.Configuration(t, config, clusterID, "controller.quorum.voters=1@b:9090, 0@a:9090\nnode.id=0")
	w.publication.Revision++
	w.publication.Configuration = ""
	w.publication.Identities[publication.NodeIdentity] = w.node.Fingerprint()
	w.publication.Chain = agenttest.Fingerprints(cross)
	for _, role := range []publication.Role{publication.AgentRole, contract.ControlPlaneListener, contract.ReplicationListener} {
		w.publication.Trust[role] = []string{fingerprint(coming)}
	}
	w.publication.Trust[contract.RaftRole] = slices.Sorted(slices.Values([]string{fingerprint(coming), fingerprint(w.clusterCA)}))
	w.publish(t)
	return w, coming
}

func TestBothSlotsOfEveryStoreHoldWhatIsMounted(t *testing.T) {
	t.Parallel()
	w, coming := remainder(t)
	r := render(t, w)
	for listener, trusts := range map[publication.Role]*x509.Certificate{
		contract.ControlPlaneListener: coming.Certificate(), contract.ReplicationListener: coming.Certificate(), custom: w.clientsCA.Certificate(),
	} {
		identity := w.node
		if listener == custom {
			identity = w.listenerIdentity
		}
		want := stores.Listener{Name: listener, Identity: identity, Trusts: []*x509.Certificate{trusts}}
		for _, name := range []string{"-key-a.pem", "-key-b.pem", "-trust-a.pem", "-trust-b.pem"} {
			kind := stores.KeyStore()
			if strings.HasPrefix(name, "-trust") {
				kind = stores.TrustStore()
			}
			if !bytes.Equal(r.Files[string(listener)+name], want.PEM(kind)) {
				t.Errorf("%s%s does not hold what is mounted", listener, name)
			}
		}
	}
	if got := len(r.Files); got != 3*6 {
		t.Errorf("%d files %v, want two stores and four slots for each of three listeners", got, slices.Sorted(maps.Keys(r.Files)))
	}
}

func TestRaftClientIsStartedWithItsOwnAnchors(t *testing.T) {
	t.Parallel()
	w, _ := remainder(t)
	r := render(t, w)
	anchors, err := pki.ParseBundle(store(t, r, "controlplane-9090-trust-"))
	if err != nil || len(anchors) != 2 {
		t.Errorf("the control plane is started with %d anchors, %v; want those of the Raft client", len(anchors), err)
	}
	raft := r.Roles[contract.RaftRole]
	if diff := cmp.Diff(w.publication.Trust[contract.RaftRole], raft.Trusts); diff != "" {
		t.Errorf("the Raft client trusts (-published +reported):\n%s", diff)
	}
	if raft.Presents != w.node.Fingerprint() || !slices.Equal(raft.Chain, w.publication.Chain) {
		t.Errorf("the Raft client presents %s with %v, want the node's leaf and chain", raft.Presents, raft.Chain)
	}
}

func TestControlPlaneIsUnknownWhileSettingsMayDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		world func(*testing.T) *world
		want  int
	}{
		"a controller whose Raft client trusts others": {func(t *testing.T) *world {
			t.Helper()
			w, _ := remainder(t)
			return w
		}, 0},
		"a controller whose Raft client trusts the same": {newWorld, 1},
		"a broker, which has it for its Raft client alone": {func(t *testing.T) *world {
			t.Helper()
			w, _ := remainder(t, contract.RoleBroker)
			return w
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := render(t, c.world(t)).Roles[contract.ControlPlaneListener]; len(got.Trusts) != c.want {
				t.Errorf("the control plane is said to trust %d anchors, want %d", len(got.Trusts), c.want)
			}
		})
	}
}

func TestVoters(t *testing.T) {
	t.Parallel()
	w, _ := remainder(t)
	matched, err := stores.Match(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	if got := matched.Voters(); !slices.Equal(got, []string{"a:9090", "b:9090"}) {
		t.Errorf("voters %v", got)
	}
	if got := (stores.Matched{ServerConfig: []byte("node.id=0\ncontroller.quorum.voters=\n")}).Voters(); len(got) > 0 {
		t.Errorf("voters %v of a configuration without any", got)
	}
}

func TestServerIsStartedWithWhatItCanLoad(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		add  func(w *world, coming pki.Authority) []*x509.Certificate
		want int
	}{
		"a cross certificate": {func(*world, pki.Authority) []*x509.Certificate { return nil }, 2},
		"the issuer of the cross certificate": {func(w *world, _ pki.Authority) []*x509.Certificate {
			return []*x509.Certificate{w.clusterCA.Certificate()}
		}, 3},
		"a second cross certificate": {func(_ *world, coming pki.Authority) []*x509.Certificate {
			other, err := pki.CrossSign(agenttest.Authority(t, "cluster-ca v-1", now), coming.Certificate(), now)
			if err != nil {
				t.Fatal(err)
			}
			return []*x509.Certificate{other}
		}, 2},
		"a certificate twice": {func(w *world, _ pki.Authority) []*x509.Certificate {
			return []*x509.Certificate{w.clusterCA.Certificate(), w.clusterCA.Certificate()}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, coming := remainder(t)
			if more := c.add(w, coming); len(more) > 0 {
				w.node.Chain = append(w.node.Chain, more...)
				agenttest.PutIdentity(w.Node, podName, w.node)
				w.publication.Chain = agenttest.Fingerprints(w.node.Chain[1:]...)
				w.publish(t)
			}
			r := render(t, w)
			if got := strings.Count(string(r.Files["replication-9091-key-a.pem"]), "BEGIN CERTIFICATE"); got != c.want {
				t.Errorf("%d certificates in the slot, want %d", got, c.want)
			}
			if got := strings.Count(string(store(t, r, "replication-9091-key-")), "BEGIN CERTIFICATE"); got != c.want {
				t.Errorf("%d certificates in the store, want %d", got, c.want)
			}
			if got := len(r.Roles[contract.ReplicationListener].Chain); got != c.want-1 {
				t.Errorf("%d certificates are said to be presented with the leaf, want %d", got, c.want-1)
			}
		})
	}
}
