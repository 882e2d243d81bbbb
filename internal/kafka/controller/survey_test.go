package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// deaf is a cluster that lets questions vanish, but for the agent with one address, and for Kafka if it talks.
type deaf struct {
	admin.Client

	agent string
	kafka bool
	// acts counts what Kafka was told to do.
	acts *int
}

func (d deaf) Agents(Access) Agents { return d }

func (d deaf) Admin(Access) (admin.Client, error) { return d, nil }

func (d deaf) Close() {}

func (d deaf) TLS(ctx context.Context, node agentclient.Node) (publication.Report, error) {
	return publication.Report{Revision: 7}, vanishUnless(ctx, node.Address == d.agent, agentTimeout)
}

func (d deaf) BrokerState(ctx context.Context, node agentclient.Node) (contract.BrokerState, error) {
	return contract.BrokerState{State: contract.StateRecovery}, vanishUnless(ctx, node.Address == d.agent, agentTimeout)
}

func (d deaf) Quorum(ctx context.Context) (admin.Quorum, error) {
	return admin.Quorum{LeaderID: 1}, vanishUnless(ctx, d.kafka, adminTimeout)
}

func (d deaf) Partitions(ctx context.Context) ([]admin.Partition, error) {
	return nil, vanishUnless(ctx, d.kafka, adminTimeout)
}

func (d deaf) Features(ctx context.Context) (admin.Features, error) {
	return admin.Features{MetadataVersion: release.MetadataVersion("4.2-IV1").Level()}, vanishUnless(ctx, d.kafka, adminTimeout)
}

func (d deaf) UnregisterBroker(context.Context, int32) error {
	*d.acts++
	return nil
}

func (d deaf) UpdateMetadataVersion(ctx context.Context, _ int16) error {
	*d.acts++
	return vanishUnless(ctx, false, adminTimeout)
}

func vanishUnless(ctx context.Context, answers bool, patience time.Duration) error {
	if answers {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

func deafReconciler(to deaf) *Reconciler {
	return New(Options{Connector: to, Clock: clock.RealClock{}, Metrics: metrics.New()})
}

// fortyPods is a reconcile over a cluster of as many nodes.
func fortyPods() *applied {
	c := clusterOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{})
	c.now = time.Now()
	c.cluster.Nodes = nil
	c.clusterCA.Snapshot.Anchors = []trust.Anchor{{ID: "a"}}
	for i := range 40 {
		pod := readyPod(fmt.Sprintf("pod-%d", i))
		pod.UID, pod.Status.PodIP = types.UID(pod.Name), fmt.Sprintf("192.0.2.%d", i)
		c.pods[pod.Name] = pod
		c.cluster.Nodes = append(c.cluster.Nodes, model.Node{ID: model.NodeID(i), Pod: pod.Name})
	}
	return c
}

// survey asks the cluster, and is what it has said.
func (r *Reconciler) survey(t *testing.T, c *applied, questions ...survey.Question) surveyed {
	t.Helper()
	c.questions = questions
	r.trackSurvey(c.decided)
	r.surveys.Poll(t.Context())
	c.now = time.Now()
	return r.surveyOf(c.observation, questions...)
}

func TestEverythingThatARestartIsDecidedFromIsAskedForAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := deafReconciler(deaf{agent: "192.0.2.7:8443"}), fortyPods()
		began := time.Now()
		reported := r.survey(t, c, r.aboutDisruption(c.decided)...)
		if took := time.Since(began); took != adminTimeout || !reported.isFresh || len(reported.unanswered) != 41 {
			t.Errorf("it took %s, %d questions have no answer (fresh: %t), want 41 after %s", took, len(reported.unanswered), reported.isFresh, adminTimeout)
		}
		if reported.Servers["pod-7"] != rollout.ServerRecovering || reported.Servers["pod-8"] != rollout.ServerUnknown || reported.Quorum.Known || reported.Partitions.Known {
			t.Errorf("the survey is %+v", reported.Answers)
		}
	})
}

// endless lists partitions for ever, page after page.
type endless struct{ deaf }

func (e endless) Admin(Access) (admin.Client, error) { return e, nil }

func (e endless) Partitions(ctx context.Context) ([]admin.Partition, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASurveyEndsBeforeItsFirstAnswersAreTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := deafReconciler(deaf{}), fortyPods()
		r.options.Connector = endless{deaf{kafka: true}}
		began := time.Now()
		reported := r.survey(t, c, r.aboutDisruption(c.decided)...)
		if took := time.Since(began); took != survey.Time || !reported.Quorum.Known || reported.Partitions.Known {
			t.Errorf("it took %s, quorum known %t, partitions known %t, want the quorum after %s", took, reported.Quorum.Known, reported.Partitions.Known, survey.Time)
		}
	})
}

func TestASurveyIsActedOnWhileItIsNewAndOfTheSameProcesses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(p *applied)
		also    []survey.Question
		isKnown bool
		isFresh bool
	}{
		"nothing has changed":                {func(*applied) {}, nil, true, true},
		"it is old":                          {func(p *applied) { p.now = p.now.Add(surveyAge + time.Millisecond) }, nil, true, false},
		"a container was started again":      {func(p *applied) { p.pods["pod-3"].Status.ContainerStatuses[0].ContainerID = "another" }, nil, true, false},
		"a pod is being deleted":             {func(p *applied) { now := readyPod("x").CreationTimestamp; p.pods["pod-3"].DeletionTimestamp = &now }, nil, true, false},
		"a pod is another":                   {func(p *applied) { p.pods["pod-3"].UID = "another" }, nil, true, false},
		"a pod is gone":                      {func(p *applied) { delete(p.pods, "pod-3") }, nil, true, false},
		"something else is to be known, too": {func(*applied) {}, []survey.Question{survey.Topics()}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, p := deafReconciler(deaf{kafka: true}), fortyPods()
				for _, pod := range p.pods {
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "first"}}
				}
				r.survey(t, p, survey.Metadata())
				c.change(p)
				if got := r.surveyOf(p.observation, append(c.also, survey.Metadata())...); got.isKnown != c.isKnown || got.isFresh != c.isFresh {
					t.Errorf("known %t and fresh %t, want %t and %t", got.isKnown, got.isFresh, c.isKnown, c.isFresh)
				}
			})
		})
	}
}

func TestASurveyThatIsTooOldIsMadeAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := deafReconciler(deaf{}), fortyPods()
		r.survey(t, c, survey.Metadata())
		<-time.After(time.Hour)
		c.now = time.Now()
		if got := r.surveyOf(c.observation, survey.Metadata()); got.isFresh {
			t.Fatal("it is taken for new after an hour")
		}
		if got := r.survey(t, c, survey.Metadata()); !got.isFresh {
			t.Error("there is no other survey")
		}
	})
}

func TestWhatNoPassAsksForIsNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, c := deafReconciler(deaf{kafka: true}), fortyPods()
		r.survey(t, c, survey.Metadata())
		c.questions = nil
		r.trackSurvey(c.decided)
		if r.surveys.Len() != 0 {
			t.Error("the cluster is still asked")
		}
	})
}

func TestAClusterThatDoesNotAnswerIsLookedAtLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers bool
		passed  time.Duration
		want    time.Duration
	}{
		"it answers":                       {answers: true, want: retryDelay},
		"it does not":                      {want: retryDelay},
		"it has not for twenty seconds":    {passed: 20 * time.Second, want: 20 * time.Second},
		"it has not for an hour":           {passed: time.Hour, want: longestWait},
		"it answers as it did an hour ago": {answers: true, passed: time.Hour, want: retryDelay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, p := deafReconciler(deaf{kafka: c.answers}), fortyPods()
				r.survey(t, p, survey.Metadata())
				p.now = p.now.Add(c.passed)
				if got := r.surveyOf(p.observation, survey.Metadata()); got.again != c.want {
					t.Errorf("it is looked at again after %s, want %s", got.again, c.want)
				}
			})
		})
	}
}

func TestNothingIsDisruptedOnWhatIsNotFresh(t *testing.T) {
	t.Parallel()
	// A node that does not work, whose start has had its time.
	broken := rollout.Snapshot{Now: noon(), Partitions: rollout.Partitions{Known: true}, Nodes: []rollout.Node{{
		PodName: "a", Broker: true, Reasons: []rollout.Reason{{Code: rollout.ConfigChanged}},
		Pod: rollout.Pod{UID: "1", State: rollout.Unready, Since: noon().Add(-time.Hour)},
	}}}
	recorded := rollout.Snapshot{Now: noon(), Disruption: &rollout.Disruption{Node: 9, UID: "9", Since: noon().Add(-time.Hour)}}
	for name, c := range map[string]struct {
		snapshot     rollout.Snapshot
		asked        surveyed
		acts, settle bool
	}{
		"it is fresh":                       {broken, surveyed{isKnown: true, isFresh: true}, true, false},
		"it is known, and not fresh":        {broken, surveyed{isKnown: true}, false, false},
		"it is not known":                   {broken, surveyed{}, false, false},
		"a record is over, and that is new": {recorded, surveyed{isKnown: true, isFresh: true}, false, true},
		"a record may be over, and may not": {recorded, surveyed{isKnown: true}, false, false},
		"a record is not known to be over":  {recorded, surveyed{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decided := rolloutInput{snapshot: c.snapshot, asked: c.asked}.decide()
			if (decided.Act != nil) != c.acts || decided.Settled != c.settle {
				t.Errorf("decided %+v, want an act: %t, settled: %t", decided, c.acts, c.settle)
			}
		})
	}
}

// listens takes over what agents have reported, and has them polled, as a decision does.
func (r *Reconciler) listens(c *applied) error {
	r.takeReports(c.polled)
	return r.trackAgents(c.decided)
}

// hears has agents polled once, and is whether all is known then that a decision depends on.
func (r *Reconciler) hears(t *testing.T, c *applied) error {
	t.Helper()
	if err := r.listens(c); !errors.Is(err, errUnpolled) {
		t.Errorf("before it was polled it is heard: %v", err)
	}
	r.agents.Poll(t.Context())
	c.now = time.Now()
	return r.listens(c)
}

// stored has the reconcile find certificates of both CAs.
func stored(t *testing.T, c *applied) *applied {
	t.Helper()
	certificate := pki.EncodeBundle(pkitest.CA(t, "cluster", noon()).Certificate())
	c.secrets = map[string]corev1.Secret{}
	for _, kind := range kinds() {
		for _, name := range []string{kind.TrustedCertsSecret(c.kafka.Name), kind.CertSecret(c.kafka.Name)} {
			c.secrets[name] = corev1.Secret{Data: map[string][]byte{"ca.crt": certificate}}
		}
	}
	return c
}

func TestAgentsAreHeardOnceEachWasPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := deafReconciler(deaf{agent: "192.0.2.7:8443"})
		c := stored(t, fortyPods())
		began := time.Now()
		if err := r.hears(t, c); err != nil || time.Since(began) != agentTimeout {
			t.Errorf("after %s: %v, want all to be polled side by side", time.Since(began), err)
		}
		if !c.reports["pod-7"].known || c.reports["pod-8"].known || len(c.silent) != 39 {
			t.Errorf("%d agents are silent, want all but that of pod-7", len(c.silent))
		}

		c.pods["pod-new"] = readyPod("pod-new")
		c.pods["pod-new"].UID, c.pods["pod-new"].Status.PodIP = "pod-new", "192.0.2.99"
		if err := r.listens(c); err != nil || slices.Contains(c.silent, "pod-new") || c.reports["pod-new"].known {
			t.Errorf("for a pod that is new everything else waits: %v", err)
		}
	})
}

func TestAReportIsBelievedOfItsOwnProcessOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *applied)
		want   bool
	}{
		"the same container": {func(*applied) {}, true},
		"the container has started again": {func(p *applied) {
			p.pods["pod-7"].Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "second"}}
		}, false},
		"another pod of the name": {func(p *applied) { p.pods["pod-7"].UID = "another" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := deafReconciler(deaf{agent: "192.0.2.7:8443"})
				p := stored(t, fortyPods())
				if err := r.hears(t, p); err != nil {
					t.Fatal(err)
				}
				c.change(p)
				if err := r.listens(p); err != nil || p.reports["pod-7"].known != c.want || slices.Contains(p.silent, "pod-7") {
					t.Errorf("known %t and silent %q: %v", p.reports["pod-7"].known, p.silent, err)
				}
			})
		})
	}
}

func TestWhatMayHoldALostAuthorityIsPolledAgainThoughSilentAMomentAgo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := deafReconciler(deaf{})
		if err := r.hears(t, stored(t, fortyPods())); err != nil {
			t.Fatal(err)
		}
		r.options.Connector = deaf{agent: "192.0.2.7:8443"}
		c := fortyPods() // without the Secrets

		if err := r.hears(t, c); err != nil || !c.reports["pod-7"].known {
			t.Errorf("what pod-7 says by now is not heard: %v", err)
		}
	})
}

func removedSight(partitions bool) rolloutInput {
	return rolloutInput{
		snapshot: rollout.Snapshot{Partitions: rollout.Partitions{Known: partitions}},
		record:   disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}},
	}
}

func TestABrokerCountsAsForgottenOnceKafkaHasDoneIt(t *testing.T) {
	t.Parallel()
	acts := 0
	r, c := deafReconciler(deaf{acts: &acts}), clusterOf(smallKafka(), nil)

	if err := r.forgetRemoved(t.Context(), c.decided, removedSight(false)); !errors.Is(err, errUnpolled) || acts != 0 {
		t.Errorf("brokers that do not answer were told %d times: %v", acts, err)
	}
	if err := r.forgetRemoved(t.Context(), c.decided, removedSight(true)); err != nil || acts != 1 {
		t.Errorf("brokers that answer were told %d times: %v", acts, err)
	}
}

// clusterBehindItsVersion is a reconcile over a Kafka whose pods run, and whose metadata version is to
// be raised to theirs.
func clusterBehindItsVersion() *applied {
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{})
	c.cluster.Metadata.Desired = "4.3-IV0"
	for _, node := range c.cluster.Nodes {
		pod := readyPod(node.Pod)
		pod.Annotations = map[string]string{model.KafkaVersionAnnotation: "4.3.0"}
		c.pods[node.Pod] = pod
	}
	return c
}

func TestTheMetadataVersionIsNotTakenForRaisedBeforeItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers   bool
		said      string
		acts, was int
	}{
		"Kafka does not answer":           {said: "could not be read yet"},
		"it answers, and does nothing":    {answers: true, said: "could not be raised to 4.3-IV0 yet", acts: 1},
		"what it has said is too old now": {answers: true, was: int(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				acts := 0
				r, p := deafReconciler(deaf{kafka: c.answers, acts: &acts}), clusterBehindItsVersion()
				r.survey(t, p, survey.Metadata())
				p.now = p.now.Add(time.Duration(c.was))
				acted := outcome{}
				if err := r.followVersion(t.Context(), p.decided, &acted); err != nil || acts != c.acts || acted.again == 0 {
					t.Errorf("Kafka receives %d requests, and the next reconcile comes after %s: %v", acts, acted.again, err)
				}
				if version := acted.metadata; version != "" {
					t.Errorf("the status says that the metadata version is %s", version)
				}
				isSaid := len(p.notes) == 1 && strings.Contains(p.notes[0].Message, c.said)
				if isSaid != (c.said != "") {
					t.Errorf("it is said: %v", p.notes)
				}
			})
		})
	}
}

func TestTopicsAreAskedForOnlyWhereNodesMayGetAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		occupied error
		want     error
		asks     int
	}{
		"the upgrade may begin":              {want: errUnpolled, asks: 1},
		"the cluster stays as it was anyway": {occupied: errors.New("an object of another owner"), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := deafReconciler(deaf{}), clusterBehindItsVersion()
			p.cluster.Version.Name, p.occupied = "4.3.1", c.occupied
			for _, pod := range p.pods {
				pod.Annotations[model.KafkaVersionAnnotation] = "3.9.1"
			}
			if err := r.checkTopics(p.decided); !errors.Is(err, c.want) || len(p.questions) != c.asks {
				t.Errorf("%d questions are asked: %v, want %d: %v", len(p.questions), err, c.asks, c.want)
			}
		})
	}
}
