package roles

import "github.com/keyturn/keyturn/internal/trust"

// Data is the plane of listeners for clients and brokers, of the agents, and of all who are
// clients of those.
func Data() trust.Plane {
	return trust.Plane{Name: "data", Bundle: trust.Main, Persists: true}
}

// Control is the plane of controller listeners, to which Raft clients present what they were
// started with.
func Control() trust.Plane {
	return trust.Plane{Name: "control", Bundle: trust.Late, Persists: true}
}

// Raft is the plane of the clients of controller listeners. Kafka gives them what its process
// is started with, and nothing else later.
func Raft() trust.Plane {
	return trust.Plane{Name: "raft", Bundle: trust.Late, Trust: trust.AtStart, Identity: trust.AtStart, Keeper: "the Raft client"}
}
