package controller

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// Whom a pass asks besides the agents of pods: the members of the quorum, and the brokers.
const (
	controllers = "controllers"
	brokers     = "brokers"
)

// quorumFetchTimeout is the default of controller.quorum.fetch.timeout.ms: how
// far behind the leader a voter may be and still count as caught up.
const quorumFetchTimeout = 2 * time.Second

// put asks the processes of a cluster side by side, within what is left of the time that
// the pass has for asking. Before something is done that silence might speak for, it has
// that time once more, for each part of them that can be asked at once. Whoever needs it
// takes it in the place of the pass.
func (r *Reconciler) put(ctx context.Context, p *pass, of reach, questions []question) fates {
	if len(questions) == 0 {
		return nil
	}
	if p.visit == nil {
		p.visit = r.asking.visit(p.kafka.UID)
	}
	left := askingTime - p.visit.waited
	if of != worthwhile {
		left = askingTime * time.Duration((len(questions)+questionsAtOnce-1)/questionsAtOnce)
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	became := p.visit.put(ctx, of, questions)
	p.became = append(p.became, became...)
	return became
}

// errNotAsked says that there was no time for a question, or not enough for its answer.
var errNotAsked = errors.New("there was not enough time to ask")

// putOne asks one question. What is not only asked but done by it has the time of its own
// that a question to everybody has: it must not fail each time because somebody else was
// waited for before.
func (r *Reconciler) putOne(ctx context.Context, p *pass, of reach, q question) error {
	var failure error
	ask := q.ask
	q.ask = func(ctx context.Context) error {
		failure = ask(ctx)
		return failure
	}
	switch r.put(ctx, p, of, []question{q})[0] {
	case presumed:
		return r.asking.failure(p.kafka.UID, q.of)
	case unasked:
		return errNotAsked
	default:
		return failure
	}
}

// agentQuestion asks the agent of a pod. One that was silent is asked at once again when
// its pod has become ready, moved, or started a container.
func agentQuestion(pod *corev1.Pod, ask func(context.Context) error) question {
	ready := strconv.FormatBool(podOf(pod).State == rollout.Ready)
	return question{of: string(pod.UID), life: strings.Join([]string{containersOf(pod), pod.Status.PodIP, ready}, " "), ask: ask}
}

// kafkaQuestion asks the controllers or the brokers.
func (p *pass) kafkaQuestion(whom string, ask func(context.Context) error) question {
	ready := 0
	for _, pod := range p.pods {
		if podOf(pod).State == rollout.Ready {
			ready++
		}
	}
	return question{of: whom, life: strconv.Itoa(ready), ask: ask}
}

// mayBeAsked reports whether the cluster has the process.
func (p *pass) mayBeAsked(of string) bool {
	if of == controllers || of == brokers {
		return true
	}
	for _, pod := range p.peers() {
		if string(pod.UID) == of {
			return true
		}
	}
	return false
}

// interview is what the processes of a cluster say about what they are doing. What
// nobody answers stays unknown, and shuts the gates that need it.
type interview struct {
	servers    map[string]rollout.ServerState
	quorum     rollout.Quorum
	partitions rollout.Partitions
	// became is what became of the questions.
	became fates
}

// interview asks everybody everything that a disruption is decided from.
func (r *Reconciler) interview(ctx context.Context, p *pass, of reach) interview {
	about := r.inquire(p)
	said := interview{servers: map[string]rollout.ServerState{}}
	pods, states, servers := r.aboutServers(p)
	questions := r.asking.inTurn(about.questions, servers)
	if kafka, err := r.options.Connector.Admin(p.access()); err == nil {
		defer kafka.Close()
		questions = append(questions, p.aboutKafka(kafka, &said)...)
	}
	said.became = r.put(ctx, p, of, questions)
	for i, pod := range pods {
		said.servers[pod] = states[i]
	}
	r.take(p, about, said.became[:min(len(said.became), len(about.pods))])
	return said
}

// inTurn asks processes that have been asked something else first only if that was not in
// vain: nobody is waited for twice. The questions that come first keep their places.
func (a *asker) inTurn(first, second []question) []question {
	all := slices.Clone(first)
	for _, q := range second {
		i := slices.IndexFunc(first, func(other question) bool { return other.of == q.of })
		if i < 0 {
			all = append(all, q)
			continue
		}
		all[i].ask = func(ctx context.Context) error {
			began := a.clock.Now()
			if err := first[i].ask(ctx); a.inVain(err, began) {
				return err
			}
			return q.ask(ctx)
		}
	}
	return all
}

// isUp reports whether a pod in that state has a server that can be asked.
func isUp(state rollout.PodState) bool { return state == rollout.Ready || state == rollout.Unready }

// aboutServers asks the agents what their servers are doing. Silence is Unknown.
func (r *Reconciler) aboutServers(p *pass) ([]string, []rollout.ServerState, []question) {
	var pods []string
	var questions []question
	states := make([]rollout.ServerState, len(p.allNodes()))
	agents, leaves := r.options.Connector.Agents(p.access()), p.leavesByHost()
	for _, node := range p.allNodes() {
		pod := p.pods[node.Pod]
		if !isUp(podOf(pod).State) || pod.Status.PodIP == "" {
			continue
		}
		i := len(pods)
		pods = append(pods, node.Pod)
		questions = append(questions, agentQuestion(pod, func(ctx context.Context) error {
			said, err := agents.BrokerState(ctx, agentOf(p.cluster.Names, pod, leaves))
			if err == nil {
				states[i] = serverOf(said)
			}
			return err
		}))
	}
	return pods, states, questions
}

// aboutKafka asks the quorum and the brokers.
func (p *pass) aboutKafka(kafka admin.Client, said *interview) []question {
	return []question{
		p.kafkaQuestion(controllers, func(ctx context.Context) error {
			quorum, err := kafka.Quorum(ctx)
			if err == nil {
				said.quorum = quorumOf(quorum)
			}
			return err
		}),
		p.kafkaQuestion(brokers, func(ctx context.Context) error {
			partitions, err := kafka.Partitions(ctx)
			if err == nil {
				said.partitions = partitionsOf(partitions)
			}
			return err
		}),
	}
}

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
