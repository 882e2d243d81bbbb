package model

import (
	"slices"
	"strconv"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// IdleStorageFields are the fields of the storage of a pool that say nothing beside the type that they stand
// with, such as the size of an ephemeral volume: sorted paths that begin with spec.storage.
func IdleStorageFields(storage kafkav1.Storage) []string {
	const path = "spec.storage"
	idle := idleVolumeFields(path, storage.Type, storage.Volume)
	if storage.Type != kafkav1.StorageJBOD {
		if len(storage.Volumes) > 0 {
			idle = append(idle, path+".volumes")
		}
		slices.Sort(idle)
		return idle
	}
	for i := range storage.Volumes {
		volume := &storage.Volumes[i]
		idle = append(idle, idleVolumeFields(path+".volumes["+strconv.Itoa(i)+"]", volume.Type, volume.Volume)...)
	}
	slices.Sort(idle)
	return idle
}

func idleVolumeFields(path string, kind kafkav1.StorageType, volume kafkav1.Volume) []string {
	written := map[string]bool{
		"size":          volume.Size != "",
		"sizeLimit":     volume.SizeLimit != "",
		"class":         volume.Class != "",
		"selector":      len(volume.Selector) > 0,
		"deleteClaim":   volume.DeleteClaim != nil,
		"kraftMetadata": volume.KraftMetadata != "",
	}
	var idle []string
	for field, isWritten := range written {
		if isWritten && !slices.Contains(volumeFields(kind), field) {
			idle = append(idle, path+"."+field)
		}
	}
	return idle
}

// volumeFields are the fields of a volume that count for its type. A jbod has them in its volumes.
func volumeFields(kind kafkav1.StorageType) []string {
	switch kind {
	case kafkav1.StorageEphemeral:
		return []string{"sizeLimit", "kraftMetadata"}
	case kafkav1.StoragePersistentClaim:
		return []string{"size", "class", "selector", "deleteClaim", "kraftMetadata"}
	case kafkav1.StorageJBOD:
		return nil
	default:
		return nil
	}
}
