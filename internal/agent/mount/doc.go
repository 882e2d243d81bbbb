// Package mount reads the directories that the kubelet mounts into the pod, each
// as it was at one moment, and only when it has changed.
//
// It does not know what the files mean.
package mount
