package apitest

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reporttest"
	agentstores "github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// TestStandInForAgentsFulfilsTheContract holds the agent of all these tests to the suite
// that a real one fulfils beside a real server. It needs no operator.
func TestStandInForAgentsFulfilsTheContract(t *testing.T) {
	t.Parallel()
	reporttest.Run(t, func(t *testing.T) reporttest.Subject {
		t.Helper()
		const name = "node-0"
		w := &world{
			t: t, clock: clocktesting.NewFakePassiveClock(start()), certs: certificates{},
			mounted: map[string]volumes{}, persisted: map[string]persisted{}, failing: map[string]int{}, behind: map[string]time.Duration{},
		}
		signer := agenttest.Authority(t, "cluster-ca v0", start())
		mounted, pin := firstMounts(t, name, signer)
		w.mounted[name] = volumes{pod: name, certs: w.certs, files: map[volume]files{}}
		w.mount(name, mounted)
		w.mounted[name].files[configVolume] = files(mounted.Config)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Annotations: map[string]string{agent.PinAnnotation: pin}}}
		server := w.began(pod, 0)
		return reporttest.Subject{
			Report: func(context.Context) (publication.Report, error) { return w.report(server), nil },
			Name:   name, Names: []string{name}, Signer: signer,
			Cluster: []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener}, Clients: agenttest.TLSListener,
			Mounted: mounted,
			Mount:   func(_ *testing.T, content agentstores.Mounted) { w.mount(name, content) },
			Work:    func() { w.follow(server) },
			Restart: func(*testing.T) {
				w.clock.SetTime(w.clock.Now().Add(time.Second))
				server = w.began(pod, server.container+1)
			},
			Now: w.clock.Now,
		}
	})
}

// firstMounts are what a node is started on, and the pin of its pod.
func firstMounts(t *testing.T, name string, signer pki.Authority) (agentstores.Mounted, string) {
	t.Helper()
	clients := agenttest.Authority(t, "clients-ca v0", start())
	identity := agenttest.Leaf(t, signer, "my-cluster-kafka", start(), name)
	config := contract.Config{
		Cluster: clusterName, PodName: name, Roles: []string{contract.RoleBroker, contract.RoleController}, DataDirs: []string{"/data"},
		Stores: []publication.Store{
			{Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
			{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
			{Role: agenttest.TLSListener, Identity: publication.NodeIdentity, Trust: contract.ClientsDomain},
		},
	}
	published := publication.Publication{
		Revision: 1, Identities: map[string]string{publication.NodeIdentity: identity.Fingerprint()},
		Trust: map[publication.Role][]string{agenttest.TLSListener: agenttest.Fingerprints(clients.Certificate())},
	}
	for _, role := range []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener, publication.AgentRole} {
		published.Trust[role] = agenttest.Fingerprints(signer.Certificate())
	}
	mounted := agentstores.Mounted{
		Node:         agentstores.Directory{},
		ClusterTrust: agenttest.TrustDirectory(signer.Certificate()),
		ClientsTrust: agenttest.TrustDirectory(clients.Certificate()),
		Config:       agenttest.Configuration(t, config, "cluster", "node.id=0\n"),
	}
	agenttest.PutIdentity(mounted.Node, name, identity)
	agenttest.PutPublication(t, mounted.Node, published)
	return mounted, fmt.Sprintf(`{"revision":%d}`, published.Revision)
}

// mount gives the volumes of a pod another content at once.
func (w *world) mount(pod string, content agentstores.Mounted) {
	for kind, directory := range map[volume]agentstores.Directory{
		nodeVolume: content.Node, clusterVolume: content.ClusterTrust, clientsVolume: content.ClientsTrust,
	} {
		if directory != nil {
			w.mounted[pod].files[kind] = files(directory)
		}
	}
}

// began starts a server on what is mounted.
func (w *world) began(pod *corev1.Pod, container int) *server {
	w.t.Helper()
	loaded, err := w.mounted[pod.Name].content(pinOf(pod))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.begin(pod, container, loaded)
}
