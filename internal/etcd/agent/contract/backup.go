package contract

import (
	"encoding/json"
	"fmt"
)

// BackupDir mounts the volume that backups are stored on.
const BackupDir = "/backup"

// BackupFailure is why a backup was not made. It serves as the reason of a condition.
type BackupFailure string

// The failures that the pod of a backup reports.
const (
	// SnapshotDenied is a user who may not take snapshots: etcd's authentication is on.
	SnapshotDenied BackupFailure = "SnapshotDenied"
	// SnapshotFailed is a cluster that does not answer, or an interrupted copy.
	SnapshotFailed BackupFailure = "SnapshotFailed"
	// SnapshotNotVerified is a copy that is damaged, or older than what etcd had before.
	SnapshotNotVerified BackupFailure = "SnapshotNotVerified"
	// VolumeNotWritable is a volume on which the copy cannot be stored.
	VolumeNotWritable BackupFailure = "VolumeNotWritable"
)

// IsKnown reports whether a failure is one of these: what a pod reports may be anything.
func (f BackupFailure) IsKnown() bool {
	switch f {
	case SnapshotDenied, SnapshotFailed, SnapshotNotVerified, VolumeNotWritable:
		return true
	default:
		return false
	}
}

// BackupResult is what the pod of a backup reports in its termination message.
type BackupResult struct {
	// Failure is empty when the backup is verified; Message says more about it.
	Failure BackupFailure `json:"failure,omitempty"`
	Message string        `json:"message,omitempty"`
	// Path below the volume, Size in bytes and SHA256 in hex are those of the file.
	Path   string `json:"path,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Revision and Version are etcd's.
	Revision int64  `json:"revision,omitempty"`
	Version  string `json:"version,omitempty"`
}

// ParseBackupResult reads what Encode has written.
func ParseBackupResult(text string) (BackupResult, error) {
	var result BackupResult
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return BackupResult{}, fmt.Errorf("reading the result of a backup: %w", err)
	}
	return result, nil
}

// Encode renders the result.
func (r BackupResult) Encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of a backup: %w", err)
	}
	return text, nil
}
