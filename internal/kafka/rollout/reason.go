package rollout

import (
	"cmp"
	"slices"
)

// ReasonCode names a root of a restart. The values are the reasons of the events
// that announce it; they are Strimzi's wherever Strimzi has one, because alerts
// and dashboards match on them.
type ReasonCode string

// The roots of a restart.
const (
	// CertificatesChanged: the node presents another leaf than it should.
	CertificatesChanged ReasonCode = "KafkaCertificatesChanged"
	// TrustAdded: the node does not trust the anchor of a new CA key yet.
	TrustAdded ReasonCode = "ClusterCaCertKeyReplaced"
	// TrustRemoved: the node still trusts an anchor that has been withdrawn.
	TrustRemoved ReasonCode = "CaCertRemoved"
	// AuthorityRenewed: a CA certificate was renewed under its old key.
	AuthorityRenewed ReasonCode = "CaCertRenewed"
	// OldAuthorityGeneration: the pod was made under an older CA generation.
	OldAuthorityGeneration ReasonCode = "CaCertHasOldGeneration"
	// ConfigChanged: the broker configuration changed in a way that Kafka
	// only reads at its start.
	ConfigChanged ReasonCode = "ConfigChangeRequiresRestart"
	// VersionChanged: the node runs another Kafka version than it should.
	// Strimzi reports it as PodHasOldRevision; the name is Keyturn's.
	VersionChanged ReasonCode = "KafkaVersionChanged"
	// PodSpecChanged: the pod was made from an older specification.
	PodSpecChanged ReasonCode = "PodHasOldRevision"
	// ResourcesChanged: the pod has older resource requests or limits.
	ResourcesChanged ReasonCode = "PodHasOldResourceRevision"
	// VolumeResized: the file system grows when the pod starts again.
	VolumeResized ReasonCode = "FileSystemResizeNeeded"
	// ManualRollingUpdate: a person asked for it with an annotation.
	ManualRollingUpdate ReasonCode = "ManualRollingUpdate"
	// PodStuck is added by Decide when the pod that is replaced is stuck; it
	// is never a reason of its own, because without something new to load the
	// next pod would be stuck like the last one.
	PodStuck ReasonCode = "PodStuck"
)

// Reason is one root of a restart with what a person should read about it.
type Reason struct {
	Code ReasonCode
	// Note says in a few words what differs, without key material.
	Note string
}

// sortReasons returns the reasons in a stable order.
func sortReasons(reasons []Reason) []Reason {
	out := slices.Clone(reasons)
	slices.SortStableFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Note, b.Note))
	})
	return out
}
