package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// minors are the supported ones in their order. A cluster goes from one to the next.
func minors() []string { return []string{"3.5", "3.6"} }

// oldest are the oldest supported patches: clients that send no handshake can keep earlier ones from
// accepting connections.
func oldest() []int { return []int{33, 14} }

// nextVersion is what members shall run: the version of the spec if etcd can get there from what runs, which is empty
// in a new cluster. Otherwise they keep what they have.
func nextVersion(running, target string) (string, *Problem) {
	at, isSupported := minorOf(target)
	if !isSupported {
		return keep(running, target), &Problem{NotSupported, fmt.Sprintf("etcd %s is not supported. The version of the members is not changed. "+
			"Set spec.version to %s or a later patch of it.", target, strings.Join(firstPatches(), ", "))}
	}
	from, isKnown := minorOf(running)
	if !isKnown || at == from || at == from+1 {
		return target, nil
	}
	reachable := minors()[from:min(from+2, len(minors()))]
	return running, &Problem{NotSupported, fmt.Sprintf("Members run etcd %s, and cannot go from there to %s: the version goes up by one minor at a time. It is not changed. "+
		"Set spec.version to a version of %s.", running, target, strings.Join(reachable, " or "))}
}

func keep(running, target string) string {
	if running == "" {
		return target
	}
	return running
}

// minorOf is which of the minors a version is of, and whether the version is supported.
func minorOf(version string) (int, bool) {
	last := max(strings.LastIndexByte(version, '.'), 0)
	at := slices.Index(minors(), version[:last])
	if at < 0 {
		return 0, false
	}
	patch, err := strconv.Atoi(version[last+1:])
	return at, err == nil && patch >= oldest()[at]
}

func firstPatches() []string {
	patches := make([]string, 0, len(minors()))
	for i, minor := range minors() {
		patches = append(patches, fmt.Sprintf("%s.%d", minor, oldest()[i]))
	}
	return patches
}
