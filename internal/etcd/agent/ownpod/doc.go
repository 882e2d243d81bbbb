// Package ownpod writes annotations of the pod that the agent runs in, and of no other:
// each write names the UID of the pod.
//
// It does not know what the annotations mean.
package ownpod
