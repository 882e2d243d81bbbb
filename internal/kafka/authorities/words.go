package authorities

import (
	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/rotation"
)

// Annotations by which people ask something of a Kafka and of its pods.
const (
	// PauseAnnotation on a Kafka, when true, keeps the operator's hands off it.
	PauseAnnotation = "strimzi.io/pause-reconciliation"
	// RestartAnnotation on a pod, or on the StrimziPodSet of several, when true, asks for
	// a restart.
	RestartAnnotation = "strimzi.io/manual-rolling-update"
)

// RaftRestartsPending is the phase of a rotation in which only controllers still accept the old
// anchor, until each node has been restarted once, when there is time.
const RaftRestartsPending rotation.Phase = "RaftRestartsPending"

// resource is what people call the resource of a cluster.
const resource = "the Kafka"

// Words are what is said of the rotations of a Kafka cluster.
func Words() *rotation.Words {
	return &rotation.Words{
		Resource: resource, Pause: PauseAnnotation, Restart: RestartAnnotation + "=true", AgentPort: agent.SecurePort,
		Node: "node", Problem: string(condition.NotReady),
		KeySecret: keySecret, CertSecret: certSecret,
		Users: string(Clients),
		Clients: rotation.ClientWords{
			Rereading: "reads ca.crt, its first entry, every *.crt or ca.p12, and looks again", Pinned: "is pinned to the old CA",
		},
		Planes: []rotation.PlaneWords{
			{Plane: roles.Data(), Parts: "client and inter-broker listeners"},
			{Plane: roles.Control(), Parts: "controller listeners"},
			{Plane: roles.Raft(), Parts: "Raft clients"},
		},
		RestartsPending: RaftRestartsPending, Keeping: "Raft clients", Closing: "controllers",
	}
}
