package admin

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Any program may run in the pod of a member. What follows from an answer takes time for each member that it lists, so that no
// more are read than a cluster has while members are replaced.
const (
	maxMembers = 64
	maxAlarms  = 4 * maxMembers
	maxURLs    = 8
	// maxText is the longest name or URL of a member: a DNS name with a scheme and a port fits.
	maxText = 512
)

var errImplausible = errors.New("the answer is implausible: find out what runs in the pod")

func membersOf(listed []*etcdserverpb.Member) ([]Member, error) {
	if len(listed) > maxMembers {
		return nil, fmt.Errorf("etcd lists %d members: %w", len(listed), errImplausible)
	}
	members := make([]Member, 0, len(listed))
	seen := map[uint64]bool{}
	for _, m := range listed {
		if seen[m.ID] || len(m.Name) > maxText || !arePlausible(m.PeerURLs) {
			return nil, fmt.Errorf("etcd lists member %x: %w", m.ID, errImplausible)
		}
		seen[m.ID] = true
		members = append(members, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, IsLearner: m.IsLearner})
	}
	return members, nil
}

func arePlausible(urls []string) bool {
	for _, url := range urls {
		if len(url) > maxText {
			return false
		}
	}
	return len(urls) <= maxURLs
}

func alarmsOf(listed []*etcdserverpb.AlarmMember) ([]Alarm, error) {
	if len(listed) > maxAlarms {
		return nil, fmt.Errorf("etcd lists %d alarms: %w", len(listed), errImplausible)
	}
	alarms := make([]Alarm, 0, len(listed))
	for _, alarm := range listed {
		alarms = append(alarms, Alarm{MemberID: alarm.MemberID, Kind: alarm.Alarm.String()})
	}
	return alarms, nil
}
