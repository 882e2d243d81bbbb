// Package podset keeps the pods of each StrimziPodSet in existence.
//
// It creates a described pod that is missing, with the description that the maker of the set renders
// again. It clears away one that has ended, and never stops a running pod, whatever its description has
// become. Only the rollout planner of the cluster's controller decides that.
package podset
