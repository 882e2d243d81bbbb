package survey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

const (
	// atOnce is how many processes of one cluster are asked side by side: each holds a connection.
	atOnce = 64
	// Time is what each 64 questions of a survey may take: what has no answer by then stays unknown, so that the first
	// answers are not too old when the last one comes.
	Time = 6 * time.Second
)

// Answers are what the processes of a cluster say about what they are doing. What does not answer stays unknown.
type Answers struct {
	// Asked is what the survey is about, sorted.
	Asked []string
	// Servers are the states of servers by the names of their pods.
	Servers    map[string]rollout.ServerState
	Quorum     rollout.Quorum
	Partitions rollout.Partitions
	Metadata   release.MetadataVersion
	Topics     map[string]topics.Topic
}

// Question is one of a survey. Its answer is taken over into the Answers.
type Question struct {
	// About tells it from other questions.
	About string
	Ask   func(ctx context.Context, kafka admin.Client) (answer func(*Answers), err error)
}

// UnansweredError has why questions of a survey have no answers, by what they are about.
type UnansweredError map[string]error

// Error names what is not known.
func (e UnansweredError) Error() string {
	return "no answer about " + strings.Join(slices.Sorted(maps.Keys(e)), ", ")
}

// Subjects are what questions are about, sorted.
func Subjects(questions []Question) []string {
	about := make([]string, 0, len(questions))
	for _, q := range questions {
		about = append(about, q.About)
	}
	slices.Sort(about)
	return slices.Compact(about)
}

// Ask asks all questions side by side, by a client that it opens and closes. It always returns Answers, with an
// UnansweredError if some are missing.
func Ask(ctx context.Context, open func() (admin.Client, error), questions []Question) (*Answers, error) {
	ctx, cancel := context.WithTimeout(ctx, Time*time.Duration((len(questions)+atOnce-1)/atOnce))
	defer cancel()
	said, unanswered := &Answers{Asked: Subjects(questions), Servers: map[string]rollout.ServerState{}}, UnansweredError{}
	kafka, err := open()
	if err != nil {
		for _, q := range questions {
			unanswered[q.About] = fmt.Errorf("connecting to Kafka: %w", err)
		}
		return said, unanswered
	}
	defer kafka.Close()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, q := range questions {
		group.Go(func() error {
			answer, err := q.Ask(ctx, kafka)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unanswered[q.About] = err
				return nil
			}
			answer(said)
			return nil
		})
	}
	_ = group.Wait() // what does not answer is a finding
	if len(unanswered) > 0 {
		return said, unanswered
	}
	return said, nil
}
