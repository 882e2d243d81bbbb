// Package podset keeps the pods of each StrimziPodSet in existence.
//
// It creates a described pod that is missing, as whoever describes the set's pods renders
// it again, and clears away one that has ended.
// It never stops a running pod, whatever its description has become: only the
// rollout planner of the cluster's controller decides that.
package podset
