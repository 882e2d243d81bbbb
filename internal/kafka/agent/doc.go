// Package agent is the first process of a Kafka container. It waits until what
// is mounted is what the pod pins, renders the server's stores and configuration
// from it, formats storage, runs the server as its child, and tells the operator
// and the kubelet what the server has loaded and whether it serves.
//
// It does what it is told: which anchors are trusted and when a pod restarts is
// the operator's decision. It talks to no API server.
package agent
