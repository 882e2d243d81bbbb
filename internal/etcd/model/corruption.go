package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	featureGates = "ETCD_FEATURE_GATES"
	initialCheck = "InitialCorruptCheck"
)

// isGate reports whether a feature gate of etcd can be set. All others could change which address peers see, or are
// unknown to etcd, which would not start.
func isGate(name string) bool {
	return slices.Contains([]string{
		"CompactHashCheck", initialCheck, "LeaseCheckpoint", "LeaseCheckpointPersist", "StopGRPCServiceOnDefrag", "TxnModeWriteWithSharedBuffer",
	}, name)
}

// gatesOf are the feature gates of a variable, and whether all of them can be set.
func gatesOf(variable corev1.EnvVar) (map[string]bool, bool) {
	gates := map[string]bool{}
	for gate := range strings.SplitSeq(variable.Value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		isOn, err := strconv.ParseBool(value)
		if err != nil || !isGate(name) {
			return nil, false
		}
		gates[name] = isOn
	}
	return gates, true
}

// corruptionFlag has a member compare its data with those of the others before it serves. Feature gates of the spec are
// in the same flag: etcd does not start with a flag and its variable.
func (c Cluster) corruptionFlag(version string) string {
	if isBeforeGates(version) {
		return "--experimental-initial-corrupt-check=true"
	}
	gates := map[string]bool{initialCheck: true}
	for _, variable := range c.pod.EtcdEnv {
		if variable.Name != featureGates {
			continue
		}
		if set, mayBeSet := gatesOf(variable); mayBeSet {
			maps.Copy(gates, set)
		}
	}
	flags := make([]string, 0, len(gates))
	for name, isOn := range gates {
		flags = append(flags, name+"="+strconv.FormatBool(isOn))
	}
	slices.Sort(flags)
	return "--feature-gates=" + strings.Join(flags, ",")
}

// isBeforeGates reports whether a version of etcd has flags in place of feature gates.
func isBeforeGates(version string) bool { return strings.HasPrefix(version, minors()[0]+".") }

// isCorruptionCheck reports whether a variable is about checks for corruption in a version. It has no effect in others.
func isCorruptionCheck(name, version string) bool {
	if isBeforeGates(version) {
		return slices.Contains([]string{
			"ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME", "ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED", "ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_TIME",
		}, name)
	}
	return name == "ETCD_CORRUPT_CHECK_TIME" || name == "ETCD_COMPACT_HASH_CHECK_TIME"
}

// hasEffect reports whether a variable of the spec counts for a version: as one of the container, or in a flag.
func hasEffect(variable corev1.EnvVar, version string) bool {
	if variable.Name == featureGates && !isBeforeGates(version) {
		_, mayBeSet := gatesOf(variable)
		return mayBeSet
	}
	return isTuning(variable.Name) || isCorruptionCheck(variable.Name, version)
}
