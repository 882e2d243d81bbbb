// Package node runs the one-node Kubernetes: it decides what is started, in which order and with which settings.
//
// The whole node lives in namespaces of its own (process ids, mounts, network, host name): one process is their
// first, and when it ends, the kernel ends every process, mount, network interface and nftables rule with it. What
// remains outside are one network interface, one cgroup per hierarchy and the state folder; Down removes them.
//
// It must not know how the programs are built nor what is installed into the cluster once it answers.
package node
