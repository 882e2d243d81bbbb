package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/reports"
)

const (
	// quorumFetchTimeout is the default of controller.quorum.fetch.timeout.ms: how
	// far behind the leader a voter may be and still count as caught up.
	quorumFetchTimeout = 2 * time.Second
	// questionsAtOnce is how many processes of one cluster are asked side by side: each holds a connection.
	questionsAtOnce = 64
	// surveyTime is what each questionsAtOnce of a survey may take: what has no answer by then stays unknown, so that the
	// first answers are not too old when the last one comes.
	surveyTime = 6 * time.Second
	// surveyAge is how old a survey may be that a disruption is decided from.
	surveyAge = 2 * time.Second
	// longestWait is how long a cluster is left alone at most whose processes do not answer.
	longestWait = 30 * time.Second
)

// survey is what the processes of a cluster say about what they are doing. What does not answer stays unknown, and
// shuts the gates that need it.
type survey struct {
	// asked is what the survey is about.
	asked      []string
	servers    map[string]rollout.ServerState
	quorum     rollout.Quorum
	partitions rollout.Partitions
	metadata   release.MetadataVersion
	topics     map[string]topics.Topic
}

// question is one of a survey. Its answer is taken over into the survey.
type question struct {
	about string
	ask   func(ctx context.Context, kafka admin.Client) (answer func(*survey), err error)
}

// Whom, and what, a survey asks besides the agents of pods.
const (
	aboutQuorum     = "the quorum"
	aboutPartitions = "the partitions"
	aboutMetadata   = "the metadata version"
	aboutTopics     = "the topics"
)

// unansweredError has why questions of a survey have no answers, by what they are about.
type unansweredError map[string]error

// Error names what is not known.
func (e unansweredError) Error() string {
	return "no answer about " + strings.Join(slices.Sorted(maps.Keys(e)), ", ")
}

// errUnheard says that it is not known yet what a decision depends on: what is left of an authority that was lost, or
// whether brokers would start. Nothing is decided then, and the cluster is looked at again when it is known.
var errUnheard = errors.New("not everything is known yet that the decision depends on")

// surveyed is what is known of the answers to questions.
type surveyed struct {
	survey

	// isKnown is true once the questions were asked, and isFresh while nothing has changed since and that is not long ago.
	isKnown, isFresh bool
	unanswered       unansweredError
	// again is when it is worthwhile to look again.
	again time.Duration
}

// surveyOf has the cluster asked from now on, and is what it has said last.
func (r *Reconciler) surveyOf(o *observation, questions ...question) surveyed {
	o.questions = append(o.questions, questions...)
	latest, isPolled := r.surveys.Latest(client.ObjectKeyFromObject(&o.kafka))[o.kafka.UID]
	if !isPolled {
		return surveyed{again: lookAgain}
	}
	wasAsked := !slices.ContainsFunc(questions, func(q question) bool { return !slices.Contains(latest.Answer.asked, q.about) })
	found := surveyed{survey: *latest.Answer, isKnown: wasAsked, isFresh: wasAsked && latest.Process == processesOf(o.pods) && o.now.Sub(latest.At) <= surveyAge, again: lookAgain}
	if unanswered, is := errors.AsType[unansweredError](latest.Err); is {
		found.unanswered, found.again = unanswered, min(max(o.now.Sub(latest.Since), lookAgain), longestWait)
	}
	return found
}

// trackSurvey has the cluster asked what the reconcile wants to know, at once if that is another thing than before, or too old. Of what
// no reconcile wants to know nothing is asked.
func (r *Reconciler) trackSurvey(c *decided) {
	name := client.ObjectKeyFromObject(&c.kafka)
	if len(c.questions) == 0 {
		r.surveys.Forget(name)
		return
	}
	target := reports.Target[survey]{UID: c.kafka.UID, Process: processesOf(c.pods), Pace: reports.Steadily, Ask: r.asking(c.access(), c.questions)}
	life := strings.Join(subjects(c.questions), ", ")
	if latest, isPolled := r.surveys.Latest(name)[c.kafka.UID]; isPolled && c.now.Sub(latest.At) > surveyAge {
		life += " after " + latest.At.String()
	}
	target.Life = life
	r.surveys.Track(name, []reports.Target[survey]{target})
}

// subjects are what questions are about.
func subjects(questions []question) []string {
	about := make([]string, 0, len(questions))
	for _, q := range questions {
		about = append(about, q.about)
	}
	slices.Sort(about)
	return slices.Compact(about)
}

// processesOf changes with what makes another answer of servers likely.
func processesOf(pods map[string]*corev1.Pod) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[name]
		fmt.Fprintf(&all, "%s %s %t; ", pod.UID, lifeOf(pod), pod.DeletionTimestamp.IsZero())
	}
	return all.String()
}

// asking asks all questions side by side.
func (r *Reconciler) asking(access Access, questions []question) func(context.Context) (*survey, error) {
	return func(ctx context.Context) (*survey, error) {
		ctx, cancel := context.WithTimeout(ctx, surveyTime*time.Duration((len(questions)+questionsAtOnce-1)/questionsAtOnce))
		defer cancel()
		said, unanswered := &survey{asked: subjects(questions), servers: map[string]rollout.ServerState{}}, unansweredError{}
		kafka, err := r.options.Connector.Admin(access)
		if err != nil {
			for _, q := range questions {
				unanswered[q.about] = fmt.Errorf("connecting to Kafka: %w", err)
			}
			return said, unanswered
		}
		defer kafka.Close()
		var mu sync.Mutex
		var group errgroup.Group
		group.SetLimit(questionsAtOnce)
		for _, q := range questions {
			group.Go(func() error {
				answer, err := q.ask(ctx, kafka)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					unanswered[q.about] = err
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
}

// aboutDisruption is everything that a disruption is decided from.
func (r *Reconciler) aboutDisruption(c *decided) []question {
	questions := []question{
		{aboutQuorum, func(ctx context.Context, kafka admin.Client) (func(*survey), error) {
			quorum, err := kafka.Quorum(ctx)
			return func(s *survey) { s.quorum = quorumOf(quorum) }, err
		}},
		{aboutPartitions, func(ctx context.Context, kafka admin.Client) (func(*survey), error) {
			partitions, err := kafka.Partitions(ctx)
			return func(s *survey) { s.partitions = partitionsOf(partitions) }, err
		}},
	}
	agents, leaves := r.options.Connector.Agents(c.access()), c.leavesByHost()
	for _, node := range c.allNodes() {
		pod := c.pods[node.Pod]
		if !isUp(podOf(pod).State) || pod.Status.PodIP == "" {
			continue
		}
		address := agentOf(c.cluster.Names, pod, leaves)
		questions = append(questions, question{"server " + node.Pod, func(ctx context.Context, _ admin.Client) (func(*survey), error) {
			said, err := agents.BrokerState(ctx, address)
			return func(s *survey) { s.servers[node.Pod] = serverOf(said) }, err
		}})
	}
	return questions
}

func metadataQuestion() question {
	return question{aboutMetadata, func(ctx context.Context, kafka admin.Client) (func(*survey), error) {
		features, err := kafka.Features(ctx)
		return func(s *survey) { s.metadata = release.MetadataVersionOf(features.MetadataVersion) }, err
	}}
}

func topicsQuestion() question {
	return question{aboutTopics, func(ctx context.Context, kafka admin.Client) (func(*survey), error) {
		held, err := kafka.DescribeTopics(ctx)
		return func(s *survey) { s.topics = held }, err
	}}
}

// isUp reports whether a pod in that state has a server that can be asked.
func isUp(state rollout.PodState) bool { return state == rollout.Ready || state == rollout.Unready }

func quorumOf(q admin.Quorum) rollout.Quorum {
	quorum := rollout.Quorum{Known: true, Leader: rollout.NodeID(q.LeaderID)}
	for _, voter := range q.Voters {
		quorum.Voters = append(quorum.Voters, rollout.Voter{
			ID: rollout.NodeID(voter.ID), CaughtUp: q.CaughtUp(voter.ID, quorumFetchTimeout),
		})
	}
	return quorum
}

func partitionsOf(list []admin.Partition) rollout.Partitions {
	partitions := rollout.Partitions{Known: true, List: make([]rollout.Partition, 0, len(list))}
	for i := range list {
		partitions.List = append(partitions.List, rollout.Partition{
			Topic: list[i].Topic, Index: list[i].Partition, Leader: rollout.NodeID(list[i].Leader),
			Replicas: nodeIDs(list[i].Replicas), InSync: nodeIDs(list[i].InSync), MinInSync: list[i].MinInSync,
		})
	}
	return partitions
}

func nodeIDs(ids []int32) []rollout.NodeID {
	out := make([]rollout.NodeID, 0, len(ids))
	for _, id := range ids {
		out = append(out, rollout.NodeID(id))
	}
	return out
}

// PollOnce asks all once that are due to be asked, and returns the Kafkas of which something has changed. It reads nothing from the
// API server, and writes nothing. It is Poll for those who wait for each poll.
func (r *Reconciler) PollOnce(ctx context.Context) []types.NamespacedName {
	return append(r.agents.Poll(ctx), r.surveys.Poll(ctx)...)
}

// Poll asks agents and servers in the background until the context ends, and calls changed when something of a Kafka has changed.
func (r *Reconciler) Poll(ctx context.Context, changed func(ctx context.Context, kafka types.NamespacedName)) error {
	var group errgroup.Group
	group.Go(func() error { return r.agents.Run(ctx, changed) })
	group.Go(func() error { return r.surveys.Run(ctx, changed) })
	return group.Wait()
}
