package contract

import (
	"encoding/json"
	"fmt"
)

// RestoreDir mounts the volume with the file that a cluster is restored from.
const RestoreDir = "/restore"

// RestoreFailure is why data was not restored. It serves as the reason of a condition.
type RestoreFailure string

// The failures that the container which restores reports.
const (
	// RestoreSourceMissing is a file that is not there.
	RestoreSourceMissing RestoreFailure = "RestoreSourceMissing"
	// RestoreSourceInUse is a file that a running etcd has locked.
	RestoreSourceInUse RestoreFailure = "RestoreSourceInUse"
	// RestoreNotVerified is a file that is damaged, or is not the one that was backed up.
	RestoreNotVerified RestoreFailure = "RestoreNotVerified"
	// RestoreFailed is everything else, such as a full volume.
	RestoreFailed RestoreFailure = "RestoreFailed"
)

// RestoreResult is what the container that restores reports in its termination message. It is zero when there was
// nothing to restore.
type RestoreResult struct {
	// Failure is empty when the data was restored; Message says more about it.
	Failure RestoreFailure `json:"failure,omitempty"`
	Message string         `json:"message,omitempty"`
	// Path of the file below its volume, and its revision.
	Path     string `json:"path,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// ParseRestoreResult reads what Encode has written.
func ParseRestoreResult(text string) (RestoreResult, error) {
	var result RestoreResult
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return RestoreResult{}, fmt.Errorf("reading the result of a restore: %w", err)
	}
	return result, nil
}

// Encode renders the result.
func (r RestoreResult) Encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of a restore: %w", err)
	}
	return text, nil
}
