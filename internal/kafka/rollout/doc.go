// Package rollout decides which single pod of a Kafka cluster may be disrupted
// now, and which named gate refuses the others.
//
// Every root of a restart (certificates, trust, configuration, version, pod
// specification, a person's wish) enters through the same function, so that two
// rollouts can never run against each other:
//
//	d := rollout.Decide(snapshot)   // at most one act, and who is refused by what
//
// A reason takes effect immediately. Callers hold back anything that may wait for a
// maintenance window.
//
// A pod that works is disrupted only when all others are there, ready and caught
// up, when the quorum survives without it, and when every partition keeps its
// min.insync.replicas. A pod that does not work has nothing to lose: it is
// replaced as soon as there is something new for it to load and its absence
// changes nothing, even when the whole cluster is down. Without that second rule
// a configuration that keeps every node from starting could never be repaired.
//
// The package is pure. It knows neither Kubernetes nor Kafka's clients, it does
// not delete anything, and it does not read the clock: the time is part of the
// snapshot, and what is not in the snapshot cannot influence the decision.
package rollout
