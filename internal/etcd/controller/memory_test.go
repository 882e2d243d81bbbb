package controller

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

func TestAStartIsOverdueTwoMinutesAfterItWasAskedForOrFound(t *testing.T) {
	t.Parallel()
	begun := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	m := &memory{asked: map[string]asked{}}
	m.ask(membership.Restart{Name: "etcd-0", Revision: 5}, begun)
	for _, step := range []struct {
		member   string
		revision int64
		after    time.Duration
		want     bool
	}{
		{"etcd-0", 5, startsWithin - time.Second, false},
		{"etcd-0", 5, startsWithin, true},
		{"etcd-1", 5, startsWithin, false}, // asked by the operator before
		{"etcd-1", 5, 2*startsWithin - time.Second, false},
		{"etcd-1", 5, 2 * startsWithin, true},
		{"etcd-1", 6, 2 * startsWithin, false},
		{"etcd-1", 6, -time.Hour, false},
	} {
		if got := m.isOverdue(step.member, step.revision, begun.Add(step.after)); got != step.want {
			t.Errorf("%s, asked for %d, %s later: overdue %t, want %t", step.member, step.revision, step.after, got, step.want)
		}
	}
	if took, isMeasured := m.restarted("etcd-0", 5, begun.Add(time.Second)); !isMeasured || took != time.Second {
		t.Errorf("a start took %s, measured %t", took, isMeasured)
	}
	if _, isMeasured := m.restarted("etcd-1", 6, begun.Add(time.Second)); isMeasured {
		t.Error("the time of a start is measured that another operator has asked for")
	}
}
