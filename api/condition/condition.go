package condition

// Type names what a condition is about. All are Strimzi's; tools wait for them by name.
type Type string

const (
	// Ready is True when the last reconciliation succeeded. Of a KafkaTopic it is False otherwise; of all other kinds NotReady takes
	// the place of Ready=False.
	Ready Type = "Ready"
	// NotReady is True when the resource does not run as asked; reason and message name what stands in the way.
	NotReady Type = "NotReady"
	// Warning is True for something that a person should change although the resource works. It may occur several times.
	Warning Type = "Warning"
	// ReconciliationPaused is True while the annotation strimzi.io/pause-reconciliation keeps the operator's hands off.
	ReconciliationPaused Type = "ReconciliationPaused"
	// Unmanaged is True while the annotation strimzi.io/managed has the topic of a KafkaTopic left alone.
	Unmanaged Type = "Unmanaged"
)

// Status of a condition.
type Status string

const (
	// True says that what the type names is the case.
	True Status = "True"
	// False says that it is not. Keyturn leaves such a condition out but for Ready of a KafkaTopic; other writers may not.
	False Status = "False"
	// Unknown says that the writer could not tell.
	Unknown Status = "Unknown"
)

// Condition is one statement about a resource, in the form of Strimzi's resources.
type Condition struct {
	// type says what the condition is about: Ready, NotReady, Warning or ReconciliationPaused.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Type Type `json:"type,omitempty"`
	// status is True, False or Unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Status Status `json:"status,omitempty"`
	// reason is one word in CamelCase that programs may compare.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// message tells a person what is the matter and what to do next.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
	// lastTransitionTime is when the status of this condition last changed, in RFC 3339 and UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}
