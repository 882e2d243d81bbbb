package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/reports"
)

const (
	// surveyAge is how old a survey may be that a disruption is decided from.
	surveyAge = 2 * time.Second
	// longestWait is how long a cluster is left alone at most whose processes do not answer.
	longestWait = 30 * time.Second
)

// errUnpolled says that it is not known yet what a decision depends on: what is left of an authority that was lost, or
// whether brokers would start. Nothing is decided then, and the cluster is looked at again when it is known.
var errUnpolled = errors.New("not everything is known yet that the decision depends on")

// surveyed is what is known of the answers to questions.
type surveyed struct {
	survey.Answers

	// isKnown is true once the questions were asked, and isFresh while nothing has changed since and that is not long ago.
	isKnown, isFresh bool
	unanswered       survey.UnansweredError
	// again is when it is worthwhile to look again.
	again time.Duration
}

// surveyOf has the cluster asked from now on, and is what it has said last.
func (r *Reconciler) surveyOf(o *observation, questions ...survey.Question) surveyed {
	o.questions = append(o.questions, questions...)
	latest, isPolled := r.surveys.Latest(client.ObjectKeyFromObject(&o.kafka))[o.kafka.UID]
	if !isPolled {
		return surveyed{again: retryDelay}
	}
	wasAsked := !slices.ContainsFunc(questions, func(q survey.Question) bool { return !slices.Contains(latest.Answer.Asked, q.About) })
	found := surveyed{Answers: *latest.Answer, isKnown: wasAsked, isFresh: wasAsked && latest.Process == processesOf(o.pods) && o.now.Sub(latest.At) <= surveyAge, again: retryDelay}
	if unanswered, is := errors.AsType[survey.UnansweredError](latest.Err); is {
		found.unanswered, found.again = unanswered, min(max(o.now.Sub(latest.Since), retryDelay), longestWait)
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
	target := reports.Target[survey.Answers]{UID: c.kafka.UID, Process: processesOf(c.pods), Pace: reports.Steadily, Ask: r.asking(c.access(), c.questions)}
	life := strings.Join(survey.Subjects(c.questions), ", ")
	if latest, isPolled := r.surveys.Latest(name)[c.kafka.UID]; isPolled && c.now.Sub(latest.At) > surveyAge {
		life += " after " + latest.At.String()
	}
	target.Life = life
	r.surveys.Track(name, []reports.Target[survey.Answers]{target})
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

func (r *Reconciler) asking(access Access, questions []survey.Question) func(context.Context) (*survey.Answers, error) {
	open := func() (admin.Client, error) { return r.options.Connector.Admin(access) }
	return func(ctx context.Context) (*survey.Answers, error) { return survey.Ask(ctx, open, questions) }
}

// aboutDisruption is everything that a disruption is decided from.
func (r *Reconciler) aboutDisruption(c *decided) []survey.Question {
	questions := []survey.Question{survey.Quorum(), survey.Partitions()}
	agents, leaves := r.options.Connector.Agents(c.access()), c.leavesByHost()
	for _, node := range c.allNodes() {
		pod := c.pods[node.Pod]
		if !isUp(podOf(pod).State) || pod.Status.PodIP == "" {
			continue
		}
		address := agentOf(c.cluster.Names, pod, leaves)
		questions = append(questions, survey.Server(node.Pod, func(ctx context.Context) (contract.BrokerState, error) {
			return agents.BrokerState(ctx, address)
		}))
	}
	return questions
}

// isUp reports whether a pod in that state has a server that can be asked.
func isUp(state rollout.PodState) bool { return state == rollout.Ready || state == rollout.Unready }

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
