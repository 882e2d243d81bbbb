package stores_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	podName   = "my-cluster-pool-0"
	clusterID = "MkU3OEVBNTcwNTJENDM2Qg"
	custom    = publication.Role("custom-9094")
)

// world is a pod whose mounts are complete, and what they were made of.
type world struct {
	stores.Mounted

	publication            publication.Publication
	clusterCA, clientsCA   pki.Authority
	node, listenerIdentity stores.Identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	now := time.Now()
	w := &world{
		clusterCA: agenttest.Authority(t, "cluster-ca v0", now),
		clientsCA: agenttest.Authority(t, "clients-ca v0", now),
	}
	w.node = agenttest.Leaf(t, w.clusterCA, "my-cluster-kafka", now, podName)
	w.listenerIdentity = agenttest.Leaf(t, agenttest.Authority(t, "corporate", now), "kafka.example.com", now, "kafka.example.com")
	cluster, clients := fingerprint(w.clusterCA), fingerprint(w.clientsCA)
	w.publication = publication.Publication{
		Revision: 3,
		Identities: map[string]string{
			publication.NodeIdentity: w.node.Fingerprint(), string(custom): w.listenerIdentity.Fingerprint(),
		},
		Trust: map[publication.Role][]string{
			publication.AgentRole: {cluster}, contract.ControlPlaneListener: {cluster},
			contract.ReplicationListener: {cluster}, custom: {clients},
		},
	}
	w.Mounted = stores.Mounted{
		Node:         stores.Directory{},
		ClusterTrust: agenttest.TrustDirectory(w.clusterCA.Certificate()),
		ClientsTrust: agenttest.TrustDirectory(w.clientsCA.Certificate()),
		Config: agenttest.Configuration(t, contract.Config{
			PodName: podName, Roles: []string{contract.RoleBroker, contract.RoleController},
			DataDirs: []string{"/var/lib/kafka/data/kafka-log0"},
			Stores: []publication.Store{
				{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
				{Role: custom, Identity: string(custom), Trust: contract.ClientsDomain},
				{Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
			},
		}, clusterID, "node.id=0\nprocess.roles=broker,controller"),
	}
	w.publication.Configuration = contract.ConfigurationHash(func(key string) []byte { return w.Config[key] })
	w.Pod = agenttest.Pod(t, w.publication)
	agenttest.PutIdentity(w.Node, podName, w.node)
	agenttest.PutIdentity(w.Node, string(custom), w.listenerIdentity)
	w.publish(t)
	return w
}

// publish mounts the publication as it is now.
func (w *world) publish(t *testing.T) {
	t.Helper()
	agenttest.PutPublication(t, w.Node, w.publication)
}

func TestLeavesForProofsAreReadAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		change func(*world, stores.Identity)
		found  bool
	}{
		"mounted as named": {func(*world, stores.Identity) {}, true},
		"not named":        {func(w *world, _ stores.Identity) { w.publication.Proofs = nil }, false},
		"not mounted":      {func(w *world, _ stores.Identity) { delete(w.Node, publication.ProofEntry("0a")+".key") }, false},
		"another one is mounted": {func(w *world, _ stores.Identity) {
			agenttest.PutIdentity(w.Node, publication.ProofEntry("0a"), agenttest.Proof(t, w.clusterCA, now))
		}, false},
		"named after the pod was made": {func(w *world, leaf stores.Identity) {
			w.publication.Proofs = nil
			w.Pod = agenttest.Pod(t, w.publication)
			w.publication.Proofs = map[string]string{"0a": leaf.Fingerprint()}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			leaf := agenttest.Proof(t, w.clusterCA, now)
			agenttest.PutIdentity(w.Node, publication.ProofEntry("0a"), leaf)
			w.publication.Proofs = map[string]string{"0a": leaf.Fingerprint()}
			c.change(w, leaf)
			w.publish(t)
			matched, err := stores.Match(w.Mounted)
			if err != nil {
				t.Fatalf("error %v, want a start", err)
			}
			if found := len(matched.Proofs) == 1 && matched.Proofs[0].Fingerprint() == leaf.Fingerprint(); found != c.found || !found && len(matched.Proofs) > 0 {
				t.Errorf("%d leaves for proofs, want found = %t", len(matched.Proofs), c.found)
			}
			for file := range matched.Render("/run").Files {
				if strings.Contains(file, "proof") {
					t.Errorf("the server is given %s", file)
				}
			}
		})
	}
}

func fingerprint(a pki.Authority) string { return pki.FingerprintOf(a.Certificate()).String() }

func TestCompleteMountsMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	matched, err := stores.Match(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	if matched.ClusterID != clusterID || matched.Publication.Revision != 3 || matched.Node.Fingerprint() != w.node.Fingerprint() {
		t.Errorf("matched %s, revision %d, leaf %s", matched.ClusterID, matched.Publication.Revision, matched.Node.Fingerprint())
	}
	names := []publication.Role{}
	for _, l := range matched.Listeners {
		names = append(names, l.Name)
	}
	if diff := cmp.Diff([]publication.Role{contract.ControlPlaneListener, custom, contract.ReplicationListener}, names); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

func TestNewerPublicationThanThePinMatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	added := agenttest.Authority(t, "cluster-ca v1", time.Now())
	w.ClusterTrust = agenttest.TrustDirectory(w.clusterCA.Certificate(), added.Certificate())
	w.publication.Revision++
	w.publication.Trust[contract.ReplicationListener] = []string{fingerprint(w.clusterCA), fingerprint(added)}
	w.publish(t)
	matched, err := stores.Match(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(matched.Listeners[2].Trusts); got != 2 {
		t.Errorf("%s trusts %d anchors, want 2", matched.Listeners[2].Name, got)
	}
}

func TestMountedAnchorThatIsNotNamedIsNotTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger := agenttest.Authority(t, "stranger", time.Now())
	w.ClusterTrust = agenttest.TrustDirectory(w.clusterCA.Certificate(), stranger.Certificate())
	matched, err := stores.Match(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fingerprint(w.clusterCA)}
	for _, role := range []publication.Role{contract.ReplicationListener, contract.ControlPlaneListener} {
		if diff := cmp.Diff(want, matched.Render("/stores").Roles[role].Trusts); diff != "" {
			t.Errorf("%s trusts (-want +got):\n%s", role, diff)
		}
	}
}

func TestIncompleteMountsAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, w *world)
		// names is part of what the agent says it waits for.
		names string
	}{
		"nothing is mounted yet": {func(_ *testing.T, w *world) { w.Mounted = stores.Mounted{} }, contract.AgentConfigKey},
		"the ConfigMap has no server configuration": {func(_ *testing.T, w *world) {
			delete(w.Config, contract.ServerConfigKey)
		}, contract.ServerConfigKey},
		"the ConfigMap is not the one of the publication": {func(_ *testing.T, w *world) {
			w.Config[contract.ServerConfigKey] = []byte("node.id=0\nprocess.roles=broker")
		}, "configuration "},
		"the ConfigMap has no cluster id": {func(_ *testing.T, w *world) {
			w.Config[contract.ClusterIDKey] = []byte("\n")
		}, contract.ClusterIDKey},
		"the agent's configuration is damaged": {func(_ *testing.T, w *world) {
			w.Config[contract.AgentConfigKey] = []byte("{")
		}, "a usable agent.json"},
		"the pod has no pin": {func(_ *testing.T, w *world) {
			w.Pod[agent.AnnotationsFile] = []byte("a=\"b\"\n")
		}, agent.PinAnnotation},
		"the Secret has no publication": {func(_ *testing.T, w *world) {
			delete(w.Node, agent.PublicationKey)
		}, agent.PublicationKey},
		"the publication is older than the pin": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision--
			w.publish(t)
		}, "publication revision 3 or newer (revision 2 is mounted)"},
		"the pinned revision has another content": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Operators = []string{"aa"}
			w.publish(t)
		}, "as the pod pins it"},
		"the leaf is not the published one": {func(t *testing.T, w *world) {
			t.Helper()
			agenttest.PutIdentity(w.Node, podName, agenttest.Leaf(t, w.clusterCA, "my-cluster-kafka", time.Now(), podName))
		}, "of node ("},
		"the key belongs to another leaf": {func(_ *testing.T, w *world) {
			w.Node[podName+".key"] = w.listenerIdentity.Key.PEM()
		}, "its key does not belong to its certificate"},
		"the certificate is cut off": {func(_ *testing.T, w *world) {
			w.Node[podName+".crt"] = w.Node[podName+".crt"][:100]
		}, "of node ("},
		"a custom certificate is not mounted": {func(_ *testing.T, w *world) {
			delete(w.Node, string(custom)+".crt")
		}, "of custom-9094 (it is not mounted)"},
		"a custom certificate is not published": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision++
			delete(w.publication.Identities, string(custom))
			w.publish(t)
		}, "to name the leaf of custom-9094"},
		"an anchor is not mounted": {func(_ *testing.T, w *world) {
			w.ClientsTrust = stores.Directory{}
		}, "of the clients authority for custom-9094"},
		"an anchor is damaged": {func(_ *testing.T, w *world) {
			for file := range w.ClientsTrust {
				w.ClientsTrust[file] = []byte("damaged")
			}
		}, "of the clients authority for custom-9094"},
		"an anchor is mounted for the other authority only": {func(_ *testing.T, w *world) {
			w.ClusterTrust, w.ClientsTrust = w.ClientsTrust, w.ClusterTrust
		}, "of the cluster authority for replication-9091"},
		"the chain of the leaf is not the published one": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision++
			w.publication.Chain = []string{"ab", "cd"}
			w.publish(t)
		}, "the chain ab, cd of the node's leaf (without a certificate is mounted)"},
		"an anchor of the Raft client is not mounted": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision++
			w.publication.Trust[contract.RaftRole] = []string{"ab"}
			w.publish(t)
		}, "anchor ab of the cluster authority for raft"},
		"the publication names no anchor for the Raft client": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision++
			w.publication.Trust[contract.RaftRole] = []string{}
			w.publish(t)
		}, "to name an anchor for raft"},
		"the publication names no anchor for a listener": {func(t *testing.T, w *world) {
			t.Helper()
			w.publication.Revision++
			w.publication.Trust[custom] = nil
			w.publish(t)
		}, "to name an anchor for custom-9094"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.spoil(t, w)
			_, err := stores.Match(w.Mounted)
			waiting, ok := errors.AsType[*agent.WaitingError](err)
			if !ok {
				t.Fatalf("error %v, want a WaitingError", err)
			}
			if !strings.Contains(waiting.Error(), c.names) {
				t.Errorf("it says %q, want it to name %q", waiting, c.names)
			}
			if strings.Contains(waiting.Error(), "PRIVATE") {
				t.Error("it shows key material")
			}
		})
	}
}

func TestEverythingMissingIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ClusterTrust, w.ClientsTrust = nil, nil
	_, err := stores.Match(w.Mounted)
	waiting, ok := errors.AsType[*agent.WaitingError](err)
	if !ok || len(waiting.For) != 3 {
		t.Errorf("error %v, want a WaitingError that names one anchor for each of three listeners", err)
	}
}
