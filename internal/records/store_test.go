package records_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

const cluster types.UID = "uid"

func words() map[string]*rotation.Words {
	of := rotationtest.AtRest(0)
	return map[string]*rotation.Words{of.Domain: of.Words}
}

// at is a record as it would be made after a time.
func at(after time.Duration, changes ...rotationtest.Change) rotation.Record {
	record := rotationtest.AtRest(2, changes...)
	record.Snapshot.Now = record.Snapshot.Now.Add(after)
	return record
}

func latest(store *records.Store, record rotation.Record) rotation.Record {
	return store.Latest(cluster, record, trust.Decide(record.Snapshot))
}

func TestARecordStandsWhileNothingButTheTimeChanges(t *testing.T) {
	t.Parallel()
	store := records.NewStore()
	first := latest(store, at(0))
	if again := latest(store, at(time.Hour)); !again.Snapshot.Now.Equal(first.Snapshot.Now) {
		t.Errorf("it is of %s, want %s", again.Snapshot.Now, first.Snapshot.Now)
	}
	store.Wrote(cluster)
	if latest(store, at(2*time.Hour)); store.HasNew(cluster) {
		t.Error("what says the same is to be written down")
	}
	if other := latest(store, at(time.Hour, rotationtest.Replaced)); !store.HasNew(cluster) || other.Snapshot.Now.Equal(first.Snapshot.Now) || other.StartedAt.IsZero() {
		t.Errorf("another one is of %s, and began at %s", other.Snapshot.Now, other.StartedAt)
	}
}

func TestWhatWasWrittenDownIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	began := latest(records.NewStore(), at(0, rotationtest.Replaced))
	data, err := records.Encode([]rotation.Record{began})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cluster string
		after   time.Duration
		want    time.Duration
	}{
		"of this cluster":     {"my", time.Hour, 0},
		"of another cluster":  {"other", time.Hour, time.Hour},
		"from a time to come": {"my", -time.Hour, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, now := records.NewStore(), began.Snapshot.Now.Add(c.after)
			store.Recall(cluster, records.Parse(data, c.cluster, words(), now), nil)
			next := latest(store, at(c.after, rotationtest.Replaced, rotationtest.Silent("my-dual-0", now)))
			if want := began.StartedAt.Add(c.want); !next.StartedAt.Equal(want) {
				t.Errorf("the rotation began at %s, want %s", next.StartedAt, want)
			}
		})
	}
}

func TestHowLongTheLastRestartTookIsRecordedAndRecalled(t *testing.T) {
	t.Parallel()
	store := records.NewStore()
	store.Restarted(cluster, 1510*time.Millisecond)
	store.Reloaded(cluster, 2*time.Second)
	for _, forged := range []time.Duration{-time.Hour, 290 * 365 * 24 * time.Hour} {
		store.Restarted(cluster, forged)
		store.Reloaded(cluster, forged)
	}
	if store.Knows(cluster) {
		t.Error("a cluster whose records were not looked for is known")
	}
	measured := latest(store, at(0))
	if measured.RestartSeconds != 1.5 || measured.ReloadSeconds != 2 {
		t.Fatalf("%v s and %v s are recorded", measured.RestartSeconds, measured.ReloadSeconds)
	}
	for name, c := range map[string]struct{ recorded, want float64 }{"a length": {1.5, 1.5}, "no length": {-1, 0}, "more than a day": {1e9, 0}} {
		measured.RestartSeconds = c.recorded
		next := records.NewStore()
		next.Recall(cluster, map[string]rotation.Record{measured.Domain: measured}, nil)
		if got := latest(next, at(time.Hour, rotationtest.Replaced)); got.RestartSeconds != c.want || !next.Knows(cluster) {
			t.Errorf("%s: %v s are recalled, want %v", name, got.RestartSeconds, c.want)
		}
	}
}

func TestNothingFromBeforeIsToldOfAPodThatWasMadeSince(t *testing.T) {
	t.Parallel()
	store, now := records.NewStore(), rotationtest.Now()
	store.Recall(cluster, nil, map[string]types.UID{"a": "1", "b": "1"})
	created := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		pod  records.Pod
		want time.Time
	}{
		"there when the records were found": {records.Pod{Name: "a", UID: "1", Created: created}, created},
		"recreated since":                   {records.Pod{Name: "b", UID: "2", Created: created}, now},
		"made since":                        {records.Pod{Name: "c", UID: "1", Created: created}, now},
	} {
		if got := store.Made(cluster, c.pod, now); !got.Equal(c.want) {
			t.Errorf("%s: known since %s, want %s", name, got, c.want)
		}
	}
}

func TestARecordThatIsTooLongIsLeftOut(t *testing.T) {
	t.Parallel()
	long, short := rotationtest.AtRest(20_000), rotationtest.AtRest(1)
	long.Domain = "long"
	data, err := records.Encode([]rotation.Record{long, short})
	if _, is := errors.AsType[*rotation.TooLongError](err); !is || len(data) != 1 || len(records.Parse(data, "my", words(), rotationtest.Now())) != 1 {
		t.Errorf("%d records are left, with error %v", len(data), err)
	}
}

func TestAClusterThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	store := records.NewStore()
	latest(store, at(0))
	store.Forget(cluster)
	if store.Len() != 0 || len(store.Of(cluster)) != 0 {
		t.Errorf("%d clusters are remembered", store.Len())
	}
}
