package records

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Store remembers the records of clusters, by the UIDs of these. It may be used concurrently.
type Store struct {
	mu       sync.Mutex
	clusters map[types.UID]*cluster
}

// cluster is what is remembered of one.
type cluster struct {
	// records are those of its domains; nil before they were looked for.
	records map[string]rotation.Record
	// pods are those that it had when its records were found, by name.
	pods map[string]types.UID
	// isNew is true once a record was made that is not written down.
	isNew bool
	// restart and reload are how long the last ones took; zero when not measured yet.
	restart, reload time.Duration
}

// NewStore returns a Store that remembers nothing.
func NewStore() *Store { return &Store{clusters: map[types.UID]*cluster{}} }

// Knows reports whether the records of a cluster were looked for, whether or not there were any.
func (s *Store) Knows(of types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[of] != nil && s.clusters[of].records != nil
}

// Recall remembers the records of a cluster that were found, by their domains, and the pods that there were then.
func (s *Store) Recall(of types.UID, found map[string]rotation.Record, pods map[string]types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.get(of)
	known.records, known.pods = found, pods
	for _, record := range found { // all records of a cluster say the same
		known.restart = cmp.Or(known.restart, seconds(record.RestartSeconds))
		known.reload = cmp.Or(known.reload, seconds(record.ReloadSeconds))
	}
}

// longest is more than any restart has ever taken.
const longest = 24 * time.Hour

// plausible is a length of time that a restart may take, and zero instead of any other: times in Secrets of tenants may be forged, and
// clocks are set.
func plausible(length time.Duration) time.Duration {
	if length > 0 && length < longest {
		return length
	}
	return 0
}

// seconds is a length of time as records have it; one that a record has no room for is zero.
func seconds(length float64) time.Duration {
	if length > 0 && length < longest.Seconds() {
		return time.Duration(length * float64(time.Second))
	}
	return 0
}

// Of are the records of a cluster by their domains.
func (s *Store) Of(cluster types.UID) map[string]rotation.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.get(cluster).records)
}

// Made is since when a pod is known as it is. Records that were found tell nothing of a pod that was created after that: such a pod
// is known since now.
func (s *Store) Made(of types.UID, pod Pod, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get(of).pods[pod.Name] != pod.UID {
		return now
	}
	return pod.Created
}

// Pod is one of a cluster.
type Pod struct {
	Name    string
	UID     types.UID
	Created time.Time
}

// Latest is the record that is to be stored, with what was measured: the previous one while nothing but the time has changed.
func (s *Store) Latest(of types.UID, record rotation.Record, plan trust.Plan) rotation.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.get(of)
	record.RestartSeconds, record.ReloadSeconds = tenths(known.restart), tenths(known.reload)
	before, isKnown := known.records[record.Domain]
	record = record.Following(before, plan)
	if isKnown && before.Same(record) {
		return before
	}
	if known.records == nil {
		known.records = map[string]rotation.Record{}
	}
	known.records[record.Domain], known.isNew = record, true
	return record
}

func tenths(length time.Duration) float64 { return length.Round(time.Second / 10).Seconds() }

// Wrote remembers that the latest records of a cluster are written down.
func (s *Store) Wrote(of types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.get(of).isNew = false
}

// HasNew reports whether a record of a cluster was made since they were written down, or found.
func (s *Store) HasNew(of types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(of).isNew
}

// Restarted remembers how long a restart of a member took.
func (s *Store) Restarted(of types.UID, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.get(of)
	known.restart = cmp.Or(plausible(took), known.restart)
}

// Reloaded remembers how long it took until a member had loaded what was published to it.
func (s *Store) Reloaded(of types.UID, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.get(of)
	known.reload = cmp.Or(plausible(took), known.reload)
}

// Forget drops a cluster that is gone.
func (s *Store) Forget(of types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clusters, of)
}

// Len is how many clusters are remembered.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clusters)
}

// get is called with the lock held.
func (s *Store) get(of types.UID) *cluster {
	if s.clusters[of] == nil {
		s.clusters[of] = &cluster{}
	}
	return s.clusters[of]
}
