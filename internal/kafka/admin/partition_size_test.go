package admin

import (
	"reflect"
	"testing"
)

func TestWhatAPartitionTakesIsKnown(t *testing.T) {
	t.Parallel()
	if got := reflect.TypeFor[Partition]().Size(); got != partitionBytes {
		t.Errorf("a partition without replicas takes %d bytes, but %d are counted", got, partitionBytes)
	}
}
