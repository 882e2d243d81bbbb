package controller

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

func TestAStartIsAskedForSinceItWasAskedForOrFound(t *testing.T) {
	t.Parallel()
	begun := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	m := &memory{asked: map[string]asked{}}
	m.ask(membership.Restart{Name: "etcd-0", Revision: 5}, begun)
	for _, step := range []struct {
		member   string
		revision int64
		after    time.Duration
		since    time.Duration
	}{
		{"etcd-0", 5, time.Minute, 0},
		{"etcd-1", 5, time.Minute, time.Minute}, // asked by the operator before
		{"etcd-1", 5, time.Hour, time.Minute},
		{"etcd-1", 6, time.Hour, time.Hour},
		{"etcd-1", 6, -time.Hour, time.Hour},
	} {
		if got := m.askedSince(step.member, step.revision, begun.Add(step.after)); !got.Equal(begun.Add(step.since)) {
			t.Errorf("%s, asked for %d, %s later: asked at %s, want %s", step.member, step.revision, step.after, got, begun.Add(step.since))
		}
	}
	if took, isMeasured := m.restarted("etcd-0", 5, begun.Add(time.Second)); !isMeasured || took != time.Second {
		t.Errorf("a start took %s, measured %t", took, isMeasured)
	}
	if _, isMeasured := m.restarted("etcd-1", 6, begun.Add(time.Second)); isMeasured {
		t.Error("the time of a start is measured that another operator has asked for")
	}
}
