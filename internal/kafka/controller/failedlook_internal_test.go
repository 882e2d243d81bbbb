package controller

import (
	"errors"
	"testing"
)

func TestAFailureThatPassesIsToldBesideARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	unreadable, busy := &unreadableRecordError{err: errors.New("broken")}, errors.New("etcd is busy")
	if got := retryableFirst(busy, unreadable); transient(got) == nil {
		t.Errorf("%v is not tried again", got)
	}
	if got := retryableFirst(nil, unreadable); !unreadableRecord(got) {
		t.Errorf("%v, want what a person has to know", got)
	}
}
