package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

func listed(count int) []*etcdserverpb.Member {
	members := make([]*etcdserverpb.Member, 0, count)
	for id := range count {
		members = append(members, &etcdserverpb.Member{ID: uint64(id), Name: "m", PeerURLs: []string{"https://m:2380"}})
	}
	return members
}

func TestAnAnswerThatNoClusterGivesIsNotRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxText+1)
	for name, members := range map[string][]*etcdserverpb.Member{
		"members without end": listed(maxMembers + 1),
		"one member twice":    slices.Concat(listed(1), listed(1)),
		"a name without end":  {{ID: 1, Name: long}},
		"a URL without end":   {{ID: 1, PeerURLs: []string{long}}},
		"URLs without end":    {{ID: 1, PeerURLs: make([]string, maxURLs+1)}},
	} {
		if read, err := membersOf(members); !errors.Is(err, errImplausible) {
			t.Errorf("%s: %d are read, %v", name, len(read), err)
		}
	}
	if read, err := alarmsOf(make([]*etcdserverpb.AlarmMember, maxAlarms+1)); !errors.Is(err, errImplausible) {
		t.Errorf("%d alarms are read, %v", len(read), err)
	}
	if read, err := membersOf(listed(maxMembers)); err != nil || len(read) != maxMembers {
		t.Errorf("%d members are read, %v", len(read), err)
	}
}
