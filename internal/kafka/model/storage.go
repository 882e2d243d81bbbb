package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// StorageAnnotation carries, on the StrimziPodSet of a pool, the storage its
// pods were built with.
const StorageAnnotation = "strimzi.io/storage"

// dataRoot is the directory under which all volumes are mounted.
const dataRoot = "/var/lib/kafka"

// ErrStorage is wrapped by every error about storage that cannot be read.
var ErrStorage = errors.New("storage cannot be used")

// Volume is one resolved volume of the nodes of a pool.
type Volume struct {
	// Name is the name of the volume in the pod: "data", or "data-<id>" in a JBOD.
	Name string
	// Type is StorageEphemeral or StoragePersistentClaim.
	Type kafkav1.StorageType
	// Size is the size of the claim, or the limit of ephemeral storage; zero
	// when there is no limit.
	Size resource.Quantity
	// Class of the claim, empty for the default one.
	Class string
	// Selector of the claim by labels.
	Selector map[string]string
	// DeleteClaim says that the claim goes with the cluster or the node.
	DeleteClaim bool
	// Metadata is true for the one volume that holds the metadata log.
	Metadata bool
}

// MountPath is where the volume is mounted in the container.
func (v Volume) MountPath() string { return dataRoot + "/" + v.Name }

// Claim is the name of the PersistentVolumeClaim for a pod.
func (v Volume) Claim(pod string) string { return v.Name + "-" + pod }

// LogDir is the directory of the node's partitions on the volume. It is not the
// root of the volume, where file systems keep lost+found, which Kafka would take
// for a partition.
func (v Volume) LogDir(id NodeID) string { return v.MountPath() + "/kafka-log" + id.String() }

// EncodeStorage renders storage for StorageAnnotation.
func EncodeStorage(storage kafkav1.Storage) (string, error) {
	data, err := json.Marshal(storage)
	if err != nil {
		return "", fmt.Errorf("encoding storage: %w", err)
	}
	return string(data), nil
}

// ParseStorage reads what EncodeStorage wrote, or what Strimzi wrote to the same
// annotation. It fails for storage that no pool can have.
func ParseStorage(text string) (kafkav1.Storage, error) {
	var storage kafkav1.Storage
	if err := json.Unmarshal([]byte(text), &storage); err != nil {
		return kafkav1.Storage{}, fmt.Errorf("parsing storage: %w", errors.Join(ErrStorage, err))
	}
	if _, err := volumesOf(storage); err != nil {
		return kafkav1.Storage{}, fmt.Errorf("parsing storage: %w", err)
	}
	return storage, nil
}

// ParseSize reads the size of a volume: a Kubernetes quantity above zero.
func ParseSize(text string) (resource.Quantity, error) {
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("size %q is no quantity such as 100Gi: %w", text, errors.Join(ErrStorage, err))
	}
	if size.Sign() <= 0 {
		return resource.Quantity{}, fmt.Errorf("size %q is not above zero: %w", text, ErrStorage)
	}
	return size, nil
}

// volumesOf resolves storage into volumes, sorted by id.
func volumesOf(storage kafkav1.Storage) ([]Volume, error) {
	if storage.Type != kafkav1.StorageJBOD {
		volume, err := newVolume("data", storage.Type, storage.Volume)
		if err != nil {
			return nil, err
		}
		volume.Metadata = true
		return []Volume{volume}, nil
	}
	if len(storage.Volumes) == 0 {
		return nil, fmt.Errorf("jbod has no volumes: %w", ErrStorage)
	}
	specs := slices.SortedFunc(slices.Values(storage.Volumes), func(a, b kafkav1.JBODVolume) int { return cmp.Compare(a.ID, b.ID) })
	volumes := make([]Volume, 0, len(specs))
	metadata := 0
	for i, spec := range specs {
		if spec.ID < 0 || (i > 0 && specs[i-1].ID == spec.ID) {
			return nil, fmt.Errorf("volume id %d is negative or used twice: %w", spec.ID, ErrStorage)
		}
		volume, err := newVolume("data-"+strconv.FormatInt(int64(spec.ID), 10), spec.Type, spec.Volume)
		if err != nil {
			return nil, fmt.Errorf("volume %d: %w", spec.ID, err)
		}
		if spec.KraftMetadata == kafkav1.KraftMetadataShared {
			metadata = i
		}
		volumes = append(volumes, volume)
	}
	volumes[metadata].Metadata = true
	return volumes, nil
}

func newVolume(name string, kind kafkav1.StorageType, spec kafkav1.Volume) (Volume, error) {
	volume := Volume{
		Name:        name,
		Type:        kind,
		Class:       spec.Class,
		Selector:    maps.Clone(spec.Selector),
		DeleteClaim: spec.DeleteClaim != nil && *spec.DeleteClaim,
	}
	text := spec.Size
	switch kind {
	case kafkav1.StoragePersistentClaim:
	case kafkav1.StorageEphemeral:
		if text = spec.SizeLimit; text == "" {
			return volume, nil
		}
	case kafkav1.StorageJBOD:
		return Volume{}, fmt.Errorf("a jbod cannot hold a jbod: %w", ErrStorage)
	default:
		return Volume{}, fmt.Errorf("type %q is none of ephemeral, persistent-claim and jbod: %w", kind, ErrStorage)
	}
	size, err := ParseSize(text)
	if err != nil {
		return Volume{}, err
	}
	volume.Size = size
	return volume, nil
}

// resolveStorage returns the storage that the pool can have: what is asked for,
// without the changes that running volumes cannot follow.
func (r *resolver) resolveStorage(plan poolPlan) (kafkav1.Storage, []Volume) {
	object := r.poolObject(plan.name)
	wanted := *plan.resource.Spec.Storage.DeepCopy()
	volumes, err := volumesOf(wanted)
	if err != nil {
		r.errorf(object, "spec.storage: %s", err)
		return wanted, nil
	}
	if !plan.exists() || plan.known.Storage == nil {
		return wanted, volumes
	}
	kept, refused := mergeStorage(*plan.known.Storage.DeepCopy(), wanted)
	if len(refused) == 0 {
		return wanted, volumes
	}
	r.warnf(object, ReasonStorage, "these changes to spec.storage were not made: %s; set it back, or move the data to a new pool with the other storage",
		strings.Join(refused, "; "))
	volumes, err = volumesOf(kept)
	if err != nil {
		podSet := Names{Cluster: r.in.Kafka.Name}.PodSet(plan.name)
		r.errorf(object, "the storage in use, which StrimziPodSet %s records, cannot be used: %s: restore its annotation %s", podSet, err, StorageAnnotation)
	}
	return kept, volumes
}

// mergeStorage applies to old what wanted may change: larger sizes, deleteClaim
// and more volumes. It names everything else that differs.
func mergeStorage(old, wanted kafkav1.Storage) (kafkav1.Storage, []string) {
	if old.Type != wanted.Type {
		return old, []string{fmt.Sprintf("the type stays %s instead of %s", old.Type, wanted.Type)}
	}
	if old.Type != kafkav1.StorageJBOD {
		merged, refused := mergeVolume(old.Type, old.Volume, wanted.Volume)
		kept := wanted
		kept.Volume = merged
		return kept, refused
	}
	return mergeJBOD(old, wanted)
}

func mergeJBOD(old, wanted kafkav1.Storage) (kafkav1.Storage, []string) {
	kept, refused := wanted, []string{}
	kept.Volumes = slices.Clone(wanted.Volumes)
	for _, before := range old.Volumes {
		at := slices.IndexFunc(kept.Volumes, func(v kafkav1.JBODVolume) bool { return v.ID == before.ID })
		switch {
		case at < 0:
			kept.Volumes = append(kept.Volumes, before)
			refused = append(refused, fmt.Sprintf("volume %d stays, because it may hold partitions", before.ID))
		case kept.Volumes[at].Type != before.Type:
			refused = append(refused, fmt.Sprintf("volume %d stays %s instead of %s", before.ID, before.Type, kept.Volumes[at].Type))
			kept.Volumes[at] = before
		default:
			merged, problems := mergeVolume(before.Type, before.Volume, kept.Volumes[at].Volume)
			kept.Volumes[at].Volume = merged
			for _, problem := range problems {
				refused = append(refused, fmt.Sprintf("volume %d: %s", before.ID, problem))
			}
		}
	}
	slices.SortFunc(kept.Volumes, func(a, b kafkav1.JBODVolume) int { return cmp.Compare(a.ID, b.ID) })
	return keepMetadata(old, kept, refused)
}

// keepMetadata leaves the metadata log on the volume where it is: a controller
// that finds it empty has forgotten what it voted for.
func keepMetadata(old, kept kafkav1.Storage, refused []string) (kafkav1.Storage, []string) {
	before, after := metadataVolume(old), metadataVolume(kept)
	if before == after {
		return kept, refused
	}
	for i := range kept.Volumes {
		kept.Volumes[i].KraftMetadata = ""
		if kept.Volumes[i].ID == before {
			kept.Volumes[i].KraftMetadata = kafkav1.KraftMetadataShared
		}
	}
	return kept, append(refused, fmt.Sprintf("the metadata log stays on volume %d instead of %d", before, after))
}

// metadataVolume is the id of the volume with the metadata log, -1 without any.
func metadataVolume(storage kafkav1.Storage) int32 {
	lowest := int32(-1)
	for _, volume := range storage.Volumes {
		if volume.KraftMetadata == kafkav1.KraftMetadataShared {
			return volume.ID
		}
		if lowest < 0 || volume.ID < lowest {
			lowest = volume.ID
		}
	}
	return lowest
}

// mergeVolume applies to one volume what may change.
func mergeVolume(kind kafkav1.StorageType, old, wanted kafkav1.Volume) (kafkav1.Volume, []string) {
	kept, refused := wanted, []string{}
	if kind == kafkav1.StorageEphemeral {
		if old.SizeLimit != wanted.SizeLimit {
			kept.SizeLimit = old.SizeLimit
			refused = append(refused, fmt.Sprintf("sizeLimit stays %q instead of %q, because new pods would lose their data", old.SizeLimit, wanted.SizeLimit))
		}
		return kept, refused
	}
	if shrinks(old.Size, wanted.Size) {
		kept.Size = old.Size
		refused = append(refused, fmt.Sprintf("the size stays %s instead of %s, because volumes cannot shrink", old.Size, wanted.Size))
	}
	if old.Class != wanted.Class {
		kept.Class = old.Class
		refused = append(refused, fmt.Sprintf("the class stays %q instead of %q", old.Class, wanted.Class))
	}
	if !maps.Equal(old.Selector, wanted.Selector) {
		kept.Selector = old.Selector
		refused = append(refused, "the selector stays as it was")
	}
	return kept, refused
}

func shrinks(old, wanted string) bool {
	before, oldErr := ParseSize(old)
	after, newErr := ParseSize(wanted)
	return oldErr == nil && newErr == nil && after.Cmp(before) < 0
}
