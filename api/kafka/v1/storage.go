package v1

// StorageType names where a node keeps its data.
type StorageType string

const (
	// StorageEphemeral goes with the pod.
	StorageEphemeral StorageType = "ephemeral"
	// StoragePersistentClaim stays when the pod goes.
	StoragePersistentClaim StorageType = "persistent-claim"
	// StorageJBOD is several volumes of the other types.
	StorageJBOD StorageType = "jbod"
)

// KraftMetadata says whether a volume holds the metadata log.
// +kubebuilder:validation:Enum=shared
type KraftMetadata string

// KraftMetadataShared marks the volume that holds the metadata log beside partitions. Without the mark,
// the volume with the lowest id holds it.
const KraftMetadataShared KraftMetadata = "shared"

// Storage of the nodes of a pool: one volume, or the volumes of a JBOD.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'persistent-claim' || has(self.size)",message="storage of type persistent-claim needs a size",fieldPath=.size,reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="self.type != 'jbod' || (has(self.volumes) && size(self.volumes) > 0)",message="storage of type jbod needs at least one volume",fieldPath=.volumes,reason=FieldValueRequired
type Storage struct {
	// type of the storage.
	// +required
	// +kubebuilder:validation:Enum=ephemeral;persistent-claim;jbod
	Type StorageType `json:"type,omitempty"`
	// volumes of a JBOD. They have no effect with other types.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(v, has(v.kraftMetadata)).size() <= 1",message="at most one volume may have kraftMetadata: the metadata log is in one place",reason=FieldValueInvalid
	Volumes []JBODVolume `json:"volumes,omitempty"`

	Volume `json:",inline"`
}

// JBODVolume is one volume of a JBOD.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'persistent-claim' || has(self.size)",message="a volume of type persistent-claim needs a size",fieldPath=.size,reason=FieldValueRequired
type JBODVolume struct {
	// id of the volume, unique in the pool. It names the directory and the claim.
	// +required
	// +kubebuilder:validation:Minimum=0
	ID int32 `json:"id"`
	// type of the volume.
	// +required
	// +kubebuilder:validation:Enum=ephemeral;persistent-claim
	Type StorageType `json:"type,omitempty"`

	Volume `json:",inline"`
}

// Volume describes one volume of a node. Which fields count depends on the type beside it.
type Volume struct {
	// size of a persistent claim, such as 100Gi. It can grow and not shrink.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Size string `json:"size,omitempty"`
	// sizeLimit of ephemeral storage, such as 2Gi.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$`
	// +kubebuilder:validation:MaxLength=64
	SizeLimit string `json:"sizeLimit,omitempty"`
	// class is the StorageClass of a persistent claim. Unset means the cluster's default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`
	// selector chooses volumes for a persistent claim by their labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Selector map[string]string `json:"selector,omitempty"`
	// deleteClaim says whether a persistent claim goes with its node. Unset means false.
	// +optional
	DeleteClaim *bool `json:"deleteClaim,omitempty"`
	// kraftMetadata marks the volume that holds the metadata log.
	// +optional
	KraftMetadata KraftMetadata `json:"kraftMetadata,omitempty"`
}
