// Package contract is what the operator and the agent inside an etcd pod have to agree on
// besides what internal/agent and internal/publication define: the two planes of a member,
// the annotations of the enrollment, and where the agent leaves the files that etcd reads.
//
// It holds values and their encodings only. It knows neither Kubernetes nor the network.
package contract
