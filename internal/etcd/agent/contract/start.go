package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DataDir is etcd's data directory, on the volume of the member.
const DataDir = "/var/etcd/data"

// StartAnnotation of a pod carries a Start as JSON. The operator writes it, and the agent reads it at each start of the
// container: what it says is recorded outside of the volume that it is about.
const StartAnnotation = "keyturn.dev/etcd-start"

// Start says how etcd starts in a pod.
type Start struct {
	// HasJoined is true of a member that etcd has: it starts on the data that it has, and never on an empty volume.
	HasJoined bool `json:"hasJoined,omitempty"`
	// IsFirst is true of the member that a new cluster begins with.
	IsFirst bool `json:"isFirst,omitempty"`
	// Members are the peer URLs of all members by name, that of the pod included.
	Members map[string]string `json:"members"`
}

// ErrNoMembers says that a Start names no member.
var ErrNoMembers = errors.New("it names no members")

// ParseStart reads what Encode has written.
func ParseStart(text string) (Start, error) {
	var start Start
	if err := json.Unmarshal([]byte(text), &start); err != nil {
		return Start{}, fmt.Errorf("reading annotation %s: %w", StartAnnotation, err)
	}
	if len(start.Members) == 0 {
		return Start{}, fmt.Errorf("reading annotation %s: %w", StartAnnotation, ErrNoMembers)
	}
	return start, nil
}

// Encode renders the start as JSON.
func (s Start) Encode() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding annotation %s: %w", StartAnnotation, err)
	}
	return string(text), nil
}

// Names are those of all members, sorted.
func (s Start) Names() []string { return slices.Sorted(maps.Keys(s.Members)) }

// Flags are etcd's. It looks at them only when its volume is empty.
func (s Start) Flags() []string {
	state := "existing"
	if s.IsFirst {
		state = "new"
	}
	members := make([]string, 0, len(s.Members))
	for _, name := range s.Names() {
		members = append(members, name+"="+s.Members[name])
	}
	return []string{"--initial-cluster=" + strings.Join(members, ","), "--initial-cluster-state=" + state}
}

// StartFailure is why a container has not started etcd, as its termination message says.
type StartFailure string

// VolumeEmpty is a member that has joined and finds no data on its volume.
const VolumeEmpty StartFailure = "VolumeEmpty"

// StartResult is the termination message of a container that has not started etcd.
type StartResult struct {
	Failure StartFailure `json:"failure"`
}

// ParseStartFailure reads the failure in a termination message; empty when it tells of none.
func ParseStartFailure(message string) StartFailure {
	var result StartResult
	if json.Unmarshal([]byte(message), &result) != nil {
		return "" // etcd has ended, and the end of its log is there
	}
	return result.Failure
}
