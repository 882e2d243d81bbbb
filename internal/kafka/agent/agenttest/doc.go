// Package agenttest makes what an agent needs to run outside of Kubernetes:
// authorities, leaves, mounted volumes as a kubelet writes them, and whole
// clusters of real Kafka nodes on this machine, each under its own agent.
package agenttest
