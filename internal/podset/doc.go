// Package podset keeps the pods of each StrimziPodSet in existence.
//
// It creates a described pod that is missing and clears away one that has ended.
// It never stops a running pod, whatever its description has become: only the
// rollout planner of the cluster's controller decides that.
package podset
