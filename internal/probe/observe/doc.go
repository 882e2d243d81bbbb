// Package observe records what a probe sees of the nodes of a cluster over time: their pods, what
// they present in handshakes, and what they report to have loaded. It draws that as rows of a picture.
//
// It must not know what kind of server a node runs.
package observe
