// Package policies enforces the NetworkPolicies of the bed's cluster.
//
// It is the bed's own and bounded: rules for what comes in (ingress) for IPv4, by pods, namespaces, ranges of addresses, and
// ports as numbers, ranges and names. Rules for what goes out are not enforced. The node itself and the machine, which counts
// as the node, are let in everywhere, as Kubernetes lets a pod's own machine in.
//
// What is decided (decide.go) is apart from how the kernel is told (render.go) and from watching the cluster (run.go).
package policies
