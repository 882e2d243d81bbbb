package model_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/user/model"
)

func waiting(name string, notAfter time.Duration) model.Seen {
	return model.Seen{
		User: types.NamespacedName{Namespace: "kafka", Name: name}, IsKnown: true, IsReady: true, Waits: true,
		NotBefore: noon().Add(-time.Hour), NotAfter: noon().Add(notAfter),
	}
}

func TestTheNextBatchHasThoseThatExpireFirst(t *testing.T) {
	t.Parallel()
	current := waiting("current", time.Minute)
	current.Waits = false
	users := []model.Seen{waiting("late", 9*time.Hour), waiting("b", time.Hour), current, waiting("first", time.Minute), waiting("a", time.Hour)}
	for name, c := range map[string]struct {
		users []model.Seen
		last  time.Time
		batch []string
		next  time.Time
	}{
		"as many as the rate allows":             {users, time.Time{}, []string{"first", "a"}, noon().Add(time.Second)},
		"none before the next second":            {users, noon().Add(-300 * time.Millisecond), nil, noon().Add(700 * time.Millisecond)},
		"some when the second is over":           {users, noon().Add(-time.Second), []string{"first", "a"}, noon().Add(time.Second)},
		"some after the clock was set back":      {users, noon().Add(time.Hour), []string{"first", "a"}, noon().Add(time.Second)},
		"all when no others wait":                {users[:2], time.Time{}, []string{"b", "late"}, time.Time{}},
		"none when the certificates are current": {users[2:3], noon().Add(-time.Millisecond), nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batch, next := model.NextBatch(c.users, 2, c.last, noon())
			var names []string
			for _, user := range batch {
				names = append(names, user.User.Name)
			}
			if diff := cmp.Diff(c.batch, names); diff != "" {
				t.Errorf("wrong batch (-want +got):\n%s", diff)
			}
			if !next.Equal(c.next) {
				t.Errorf("the next batch is at %s, want %s", next, c.next)
			}
		})
	}
}

func TestABatchLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	users := []model.Seen{waiting("late", 9*time.Hour), waiting("first", time.Minute)}
	before := slices.Clone(users)
	model.NextBatch(users, 1, time.Time{}, noon())
	if diff := cmp.Diff(before, users); diff != "" {
		t.Errorf("the users were reordered:\n%s", diff)
	}
}

func TestProgressCountsUsersAndFindsTheOldestCertificate(t *testing.T) {
	t.Parallel()
	old, current, unready := waiting("old", time.Hour), waiting("current", time.Hour), waiting("unready", time.Hour)
	old.NotBefore, current.Waits, unready.IsReady = noon().Add(-2*time.Hour), false, false
	withoutCertificate := model.Seen{IsKnown: true, IsReady: true}
	status := model.Progress([]model.Seen{current, old, unready, withoutCertificate, {}})
	if status.Total != 5 || status.Ready != 3 || status.Reissued != 2 || !status.Oldest.Time.Equal(noon().Add(-2*time.Hour)) {
		t.Errorf("progress is %+v, want 5 users of which 3 are ready and 2 need no other certificate", status)
	}
	if empty := model.Progress(nil); empty.Total != 0 || empty.Oldest != nil {
		t.Errorf("progress without users is %+v", empty)
	}
}
