package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// shortestWait keeps a due time that has just passed from spinning.
const shortestWait = time.Second

func (o *observation) paused() bool {
	return model.Says(o.kafka.Annotations, model.PauseAnnotation, isTrue)
}

// reportPaused says that nothing is done, and leaves the rest of the status as
// it was.
func (r *Reconciler) reportPaused(ctx context.Context, c *applied) (ctrl.Result, error) {
	watched, failure := r.watch(ctx, c)
	status := *c.kafka.Status.DeepCopy()
	status.Conditions = c.conditions(slices.Concat(c.warnings(), watched, userProgress(c.kafka.Status.Users), []wanted{holds(
		condition.ReconciliationPaused, reasonPaused,
		"the Kafka is not changed while the annotation "+model.PauseAnnotation+" is true; pods that stop are recreated",
	)}))
	return ctrl.Result{RequeueAfter: c.nextReconcile(outcome{})}, errors.Join(failure, r.writeStatus(ctx, c.observation, status))
}

// watch returns the conditions of a cluster in which nothing is changed. It decides only to report,
// because certificates still expire. A cluster that was never created has none. The error
// means that the cluster could not be observed and that a retry may help.
func (r *Reconciler) watch(ctx context.Context, c *applied) ([]wanted, error) {
	c.notes = nil
	undecided := r.decide(ctx, c.decided)
	c.noteForeign()
	switch {
	case len(c.podSets) == 0:
		return nil, nil
	case undecided != nil:
		return c.said(ofTrust), r.reportUndecided(c.observation, undecided)
	}
	r.metrics.Note(client.ObjectKeyFromObject(&c.kafka), c.figures(outcome{}))
	return c.writtenConditions(), nil
}

// reportUndecided tells why a cluster in which nothing is changed could not be looked at, and
// returns what has the reconcile repeated.
func (r *Reconciler) reportUndecided(o *observation, undecided error) error {
	if errors.Is(undecided, errUnpolled) {
		o.wake(o.now.Add(retryDelay))
		return nil
	}
	failure := transient(undecided)
	if failure != nil {
		o.note("Kafka "+o.kafka.Namespace+"/"+o.kafka.Name, reasonFailed,
			"the certificates of the cluster, in which nothing is changed for now, could not be looked at; this is tried again: "+failure.Error())
	}
	return failure
}

// noteForeign warns of objects that stand where the cluster's own should.
func (c *desired) noteForeign() {
	if len(c.foreign) > 0 {
		foreign := &foreignObjectsError{cluster: c.kafka.Name, objects: c.foreign}
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonForeignObject, foreign.Error())
	}
}

// reportUnobserved says that a cluster could not be looked at. What was said of it before
// stands, save that it is ready. Of a Kafka that could not be read there is nothing to say.
func (r *Reconciler) reportUnobserved(ctx context.Context, o *observation, failure error) error {
	if o == nil || kube.IgnoreEnding(failure) == nil {
		return nil
	}
	ctx, cancel := inOwnTime(ctx)
	defer cancel()
	c := begin(o, &memory{})
	before := c.said(func(kind condition.Type) bool { return !ofReadiness(kind) })
	status := *c.kafka.Status.DeepCopy()
	status.Conditions = c.conditions(append(before, c.failed(failure)))
	return r.writeStatus(ctx, c.observation, status)
}

// report writes the status of the cluster and its pools, and says when to look
// again.
func (r *Reconciler) report(ctx context.Context, c *applied, acted outcome, failure error) (ctrl.Result, error) {
	ctx, cancel := inOwnTime(ctx)
	defer cancel()
	r.metrics.Note(client.ObjectKeyFromObject(&c.kafka), c.figures(acted))
	status := *c.kafka.Status.DeepCopy()
	status.ObservedGeneration = c.kafka.Generation
	if failure != nil {
		status.Conditions = c.conditions(slices.Concat(c.warnings(), c.writtenConditions(), userProgress(c.kafka.Status.Users), []wanted{c.failed(failure)}))
		result := ctrl.Result{}
		if isRefused(failure) {
			c.wake(c.now.Add(kube.Unwatched))
		}
		if c.isDegraded() || invalidResource(failure) || isRefused(failure) {
			result.RequeueAfter = c.nextReconcile(acted) // certificates end all the same
		}
		return result, errors.Join(r.writeStatus(ctx, c.observation, status), r.writePoolWarnings(ctx, c.observation))
	}
	certificates, hidden := c.shown(c.listenerCertificates())
	if len(hidden) > 0 {
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonHiddenCertificates, fmt.Sprintf("the status is too small to show the certificates of listeners %s: "+
			"clients can take them from the Secrets named by brokerCertChainAndKey", excerpt.List(hidden, ", ", excerpt.Listed)))
	}
	status.Conditions = c.conditions(slices.Concat(c.warnings(), c.trustConditions(), userProgress(c.kafka.Status.Users), c.progress(acted)))
	status.KafkaNodePools = c.cluster.UsedPools()
	status.Listeners = c.cluster.ListenerStatuses(certificates)
	if len(acted.pending) > 0 {
		status.Listeners = model.ServedListeners(c.kafka.Status.Listeners, status.Listeners)
	}
	status.KafkaVersion = cmp.Or(acted.version, status.KafkaVersion)
	status.KafkaMetadataVersion = cmp.Or(string(acted.metadata), status.KafkaMetadataVersion)
	status.OperatorLastSuccessfulVersion = r.options.Version
	if err := r.writeStatus(ctx, c.observation, status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: c.nextReconcile(acted)}, r.writePoolStatuses(ctx, c.desired)
}

// reportTime is how long a reconcile may take to report, whatever it took before.
const reportTime = 15 * time.Second

// inOwnTime gives a report a deadline of its own: that a reconcile ran out of time is to be
// told, too. An operator that is to end does so.
func inOwnTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.WithCancel(ctx)
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return own, func() { stop(); cancel() }
}

// failed is the condition for a failure. Expired certificates that the cluster still presents
// come first in its message: they already cut off clients and nodes.
func (c *applied) failed(failure error) wanted {
	if ended := c.expired(); c.isDegraded() && ended.kind != "" {
		ended.message += "; " + failure.Error()
		return ended
	}
	return notReady(failureReason(failure), failure.Error())
}

func failureReason(failure error) string {
	_, foreign := errors.AsType[*foreignObjectsError](failure)
	_, another := errors.AsType[*madeByAnotherError](failure)
	switch {
	case foreign:
		return reasonForeignObject
	case another:
		return reasonMadeByAnother
	case invalidResource(failure):
		return model.ReasonInvalidResource
	default:
		return reasonFailed
	}
}

// progress says whether the cluster is ready and what is still to be done.
func (c *applied) progress(acted outcome) []wanted {
	list := []wanted{c.readiness(acted)}
	if len(acted.pending) > 0 {
		list = append(list, rollingUpdate(acted))
	}
	return list
}

// waitingFor names the pods without which the cluster is not ready. The one pod
// that is being restarted on purpose does not count: the cluster serves.
func (c *desired) waitingFor(acted outcome) []string {
	var names []string
	for _, node := range c.cluster.Nodes {
		if podOf(c.pods[node.Pod]).State != rollout.Ready && node.Pod != acted.disrupted {
			names = append(names, node.Pod)
		}
	}
	return names
}

// wasReady reports whether the cluster has ever served: only a running quorum has a metadata version.
func (o *observation) wasReady() bool { return o.kafka.Status.KafkaMetadataVersion != "" }

func rollingUpdate(acted outcome) wanted {
	c := wanted{
		kind: conditionRollingUpdate, reason: reasonProgressing,
		message: "still to be restarted or removed: " + excerpt.List(acted.pending, ", ", excerpt.Listed),
	}
	if acted.disrupted != "" {
		c.message = "restarting " + acted.disrupted + "; " + c.message
		return c
	}
	if len(acted.blockers) == 0 {
		return c
	}
	c.reason = reasonBlocked
	var named []string
	for _, blocker := range acted.blockers {
		if sentence := fmt.Sprintf("%s (%s)", blocker.Message, blocker.Gate); !slices.Contains(named, sentence) {
			named = append(named, sentence)
		}
	}
	c.message += "; waiting: " + excerpt.First(named, excerpt.Named, "; ")
	return c
}

// listenerCertificates are certificates in PEM by listener.
type listenerCertificates map[publication.Role][]string

// listenerCertificates are what clients of each TLS listener have to trust: the
// custom certificate, or what applications are given of the cluster CA.
func (c *decided) listenerCertificates() listenerCertificates {
	anchors := c.clusterCA.Known.Certificates(c.clusterCA.Plan.Application)
	given := make([]string, 0, len(anchors))
	for _, cert := range anchors {
		given = append(given, string(pki.EncodeBundle(cert)))
	}
	certificates := listenerCertificates{}
	for _, listener := range c.cluster.Listeners {
		certificates[listener.Key()] = given
		if custom, found := c.custom[listener.Key()]; found {
			certificates[listener.Key()] = []string{string(custom.Certificates)}
		}
	}
	return certificates
}

// nextReconcile is how long until something falls due by time.
func (c *applied) nextReconcile(acted outcome) time.Duration {
	next := acted.again
	if again := recordAgain(c.unrecorded); again > 0 && (next == 0 || again < next) {
		next = again
	}
	for _, due := range c.wakeAt {
		wait := max(due.Sub(c.now), shortestWait)
		if due.After(c.now) && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}
