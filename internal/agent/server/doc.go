// Package server answers the operator and the kubelet: what the running server
// has loaded, and whether it serves.
//
// It decides who may ask, handshake by handshake, from what is mounted at that
// moment. What it answers is decided elsewhere.
package server
