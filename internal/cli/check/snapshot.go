package check

import (
	"time"

	"github.com/keyturn/keyturn/internal/rotation"
)

// Snapshot is one cluster as its status shows it.
type Snapshot struct {
	// Namespace and Object name it, Object as people type it: kafka/my-cluster.
	Namespace, Object string
	// Look is the command that shows the status.
	Look         string
	Conditions   []Condition
	Certificates []Certificate
	Rotations    []Rotation
	Restarts     []Restart
	Users        Users
	// Unread says why certificates are not known; empty when they are.
	Unread string
}

// Condition is one of the cluster, in either form of Kubernetes and Strimzi.
type Condition struct {
	Type, Status, Reason, Message string
	// Since is when the status last changed; zero when that is not known.
	Since time.Time
}

// Certificate is one that the status shows the end of.
type Certificate struct {
	// Name is a phrase without an article: "certificate of node my-cluster-dual-role-0".
	Name string
	// Of is Listener where a listener presents it from a Secret of its own.
	Of       Holder
	NotAfter time.Time
	Renewer  Renewer
	// Renewal is how long before its end it is due; zero when that is not known.
	Renewal time.Duration
	// Remedy is what a person can do; empty where the operator renews it.
	Remedy string
}

// Holder is what a certificate is for, where that matters.
type Holder string

// Listener presents a certificate that its owner has put into a Secret.
const Listener Holder = "listener"

// Renewer says what becomes of a certificate before its end.
type Renewer string

// The renewers.
const (
	// ByOperator is a certificate that the operator, or cert-manager for it, renews when it is due.
	ByOperator Renewer = "operator"
	// ByOwner is one that a person has to replace.
	ByOwner Renewer = "owner"
	// OnRequest is one whose end is meant, or only estimated: it counts only within a time that is asked about.
	OnRequest Renewer = "none"
)

// Rotation is how far one CA of the cluster is.
type Rotation struct {
	// CA is what people call it: "cluster CA".
	CA      string
	Phase   rotation.Phase
	Message string
}

// Restart is the time at which a node has to be restarted at the latest.
type Restart struct {
	Node string
	Due  time.Time
}

// Users counts the KafkaUsers of a cluster. All zero means that none are counted.
type Users struct {
	Total, Ready int
}
