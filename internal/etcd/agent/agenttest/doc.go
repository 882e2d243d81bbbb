// Package agenttest plays for tests what surrounds the agent of an etcd member: the API
// server that takes its requests, the kubelet that mounts what is stored, and the operator
// that signs.
package agenttest
