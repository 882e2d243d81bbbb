package domains

import (
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// RestartsPending is the phase in which nothing is left but to load a renewed CA certificate, for which members are restarted
// before the end of the certificate that they have loaded.
const RestartsPending rotation.Phase = "RestartsPending"

// Recorded is what the CA of a plane is called in records, as in the names of its Secrets.
func Recorded(plane contract.Plane) string { return string(plane) + "-ca" }

// Words are what is said of the CA of a plane in a namespace.
func Words(namespace string, plane contract.Plane) *rotation.Words {
	return &rotation.Words{
		Resource: "the EtcdCluster", AgentPort: agent.SecurePort, Node: "member", Problem: "Ready",
		KeySecret: namespace + ".%s-%s", CertSecret: namespace + ".%s-%s-cert",
		Internal: Recorded(contract.PeerPlane),
		Clients: rotation.ClientWords{
			Rereading: "reads its Secret again when it changes", Pinned: "keeps what it has read of its Secret at its start",
			Meanwhile: " and accept its certificate, which is until it has expired or applications count as moved (--clients-moved)",
		},
		Planes: []rotation.PlaneWords{
			{Plane: trustPlane(plane), Parts: "port for " + peersOf(plane)},
			{Plane: agentPlane(), Parts: "agents"},
			{Plane: evidence.HolderPlane(), Parts: "applications"},
		},
		RestartsPending: RestartsPending, Keeping: "members", Closing: "members",
	}
}

func peersOf(plane contract.Plane) string {
	if plane == contract.PeerPlane {
		return "members"
	}
	return "clients"
}

// trustPlane is where etcd takes part. It reads certificates anew for each connection, and CAs when it starts.
func trustPlane(plane contract.Plane) trust.Plane {
	return trust.Plane{Name: string(plane), Trust: trust.AtStart, Prompt: true, Keeper: "etcd"}
}

func agentPlane() trust.Plane { return trust.Plane{Name: string(publication.AgentRole)} }
