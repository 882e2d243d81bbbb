package rotation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	due := rotationtest.Now().Add(299 * rotationtest.Day)
	tests := map[string]struct {
		record rotation.Record
		want   rotation.Figures
	}{
		"nothing moves": {
			rotationtest.AtRest(2),
			rotation.Figures{
				Phase: rotation.Trusted, Blocked: map[trust.GuardName]int{},
				Behind:     map[trust.MemberID]int{"my-dual-0": 0, "my-dual-1": 0},
				RestartDue: map[trust.MemberID]time.Time{"my-dual-0": due, "my-dual-1": due},
			},
		},
		"one node of two does not say, and counts once": {
			rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now())),
			rotation.Figures{
				Phase: rotation.Announcing, Deadline: rotationtest.Now().Add(300 * rotationtest.Day),
				Blocked:    map[trust.GuardName]int{trust.GuardVerified: 1},
				Behind:     map[trust.MemberID]int{"my-dual-0": 0, "my-dual-1": 4},
				RestartDue: map[trust.MemberID]time.Time{"my-dual-0": due},
			},
		},
		"only Raft clients are left": {
			until(t, rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed), rotation.RaftRemainder),
			rotation.Figures{
				Phase: rotation.RaftRemainder, Deadline: rotationtest.Now().Add(300 * rotationtest.Day),
				Blocked:    map[trust.GuardName]int{trust.GuardControlUnused: 1},
				Behind:     map[trust.MemberID]int{"my-dual-0": 0},
				RestartDue: map[trust.MemberID]time.Time{"my-dual-0": due},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rotation.FiguresOf(test.record.Snapshot, trust.Decide(test.record.Snapshot))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func follow(r, before rotation.Record) rotation.Record { return r.Following(before, r.Plan()) }

func TestRotationBeganWhenItLeftRest(t *testing.T) {
	t.Parallel()
	begun := follow(rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed), rotationtest.AtRest(1))
	if !begun.StartedAt.Equal(rotationtest.Now()) {
		t.Fatalf("it began at %s, want %s", begun.StartedAt, rotationtest.Now())
	}
	later := follow(rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed, func(r *rotation.Record) {
		r.Snapshot.Now = rotationtest.Now().Add(time.Minute)
	}), begun)
	if !later.StartedAt.Equal(begun.StartedAt) {
		t.Errorf("a minute later it began at %s", later.StartedAt)
	}
	if !later.Same(begun) {
		t.Error("that a minute has passed is written down")
	}
	if over := follow(rotationtest.AtRest(1), later); !over.StartedAt.IsZero() {
		t.Errorf("it is over and began at %s", over.StartedAt)
	}
}
