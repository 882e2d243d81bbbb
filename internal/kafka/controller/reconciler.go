package controller

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/reports"
)

// fieldOwner owns what this controller applies.
const fieldOwner = client.FieldOwner("keyturn-kafka")

// evidenceOwner owns the annotations of pods that follow what their servers have
// loaded. What one owner applies replaces all that it applied before to the same
// object, so the annotation that makes a kubelet look belongs to another.
const evidenceOwner = client.FieldOwner("keyturn-kafka-evidence")

// Options are what a Reconciler works with.
type Options struct {
	// Client reads from the cache and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Log gets a line for each event and each transition of a condition; none when zero.
	Log   logr.Logger
	Clock clock.PassiveClock
	// Ahead reports how much Clock is ahead of the API server's; nil when that is not measured.
	Ahead     kube.ClockGate
	Connector Connector
	Settings  model.Settings
	// Companions returns the companions that run beside the nodes of a cluster; nil when none do.
	Companions func(model.Cluster) []companion.Companion
	Stores     authority.StoreGeneration
	// Issuer returns the issuer of node, operator and companion certificates of a CA. When nil, CAs sign whose keys are held.
	Issuer func(pki.Authority) issuer.Issuer
	// Outside makes the issuers of these certificates where the key of the CA is elsewhere.
	Outside OutsideIssuers
	// Gates says which features are enabled.
	Gates featuregate.Gates
	// Metrics is told what each reconcile has seen.
	Metrics *metrics.Metrics
	// Watches knows which of the watches are denied; nil where nothing is watched.
	Watches *watches.Observer
	// Version is the operator's own, for the status.
	Version string
}

// Reconciler reconciles Kafka resources.
type Reconciler struct {
	options   Options
	appliers  *kube.Appliers
	followers *kube.Appliers
	// named watches what Kafkas refer to by name.
	named    *kube.Named
	events   announcer
	memories *memories
	// agents polls what nodes and companions have loaded, and surveys what servers are doing while a decision depends on it.
	agents  *reports.Poller[publication.Report]
	surveys *reports.Poller[survey.Answers]
	records *records.Store
	metrics *metrics.Metrics
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	if options.Issuer == nil {
		options.Issuer = func(ca pki.Authority) issuer.Issuer { return ownca.New(ca) }
	}
	return &Reconciler{
		options:   options,
		appliers:  kube.NewAppliers(options.Client, string(fieldOwner)),
		followers: kube.NewAppliers(options.Client, string(evidenceOwner)),
		named:     kube.NewNamed(secretResource()),
		events:    announcer{recorder: options.Events, journal: journal{log: options.Log}},
		memories:  newMemories(),
		agents:    reports.New[publication.Report](options.Clock),
		surveys:   reports.New[survey.Answers](options.Clock),
		records:   records.NewStore(),
		metrics:   options.Metrics,
	}
}

// Reconcile observes a cluster, decides what it should be, applies it, does at
// most one disruptive act, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	observed, exists, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, errors.Join(err, r.reportUnobserved(ctx, observed, err))
	}
	if !exists || !observed.kafka.DeletionTimestamp.IsZero() {
		r.leave(request.NamespacedName)
		if !exists && r.options.Outside != nil {
			err = r.options.Outside.Sweep(ctx, request.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	r.metrics.Recall(request.NamespacedName, observed.kafka.Status.Conditions)
	c := begin(observed, r.meet(request.NamespacedName, observed.kafka.UID))
	defer r.trackSurvey(c.decided)
	c.wake(observed.retryWhileDenied())
	if observed.clockIsWrong() {
		return ctrl.Result{RequeueAfter: kube.ClockPause}, r.reportClock(ctx, c)
	}
	if observed.paused() {
		return r.reportPaused(ctx, c)
	}
	err = r.decide(ctx, c.decided)
	var acted outcome
	if err == nil {
		acted, err = r.execute(ctx, c)
	}
	if errors.Is(err, errUnpolled) {
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	}
	if lostRace(err) {
		return r.lost(ctx, c, err)
	}
	c.memory.lostRaces = 0
	result, reportErr := r.report(ctx, c, acted, err)
	return result, errors.Join(retried(transient(err)), reportErr)
}

// lost ends a reconcile in which another client wrote first: the next one begins with what that
// client wrote. Only losing several times in a row is reported.
func (r *Reconciler) lost(ctx context.Context, c *applied, race error) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: retryDelay}
	c.memory.lostRaces++
	if c.memory.lostRaces < racesInARow {
		return result, nil
	}
	_, err := r.report(ctx, c, outcome{}, race)
	return result, err
}

// execute carries out what was decided. Where the resources cannot be used that is
// the upkeep of certificates, and the reason is still an error.
func (r *Reconciler) execute(ctx context.Context, c *applied) (outcome, error) {
	write := r.apply
	if c.isDegraded() {
		write = r.applyCertificates
	}
	left, err := write(ctx, c)
	if err != nil || holdsRestarts(ctx, left) {
		return outcome{}, together(left, err)
	}
	acted, err := r.act(ctx, c)
	switch {
	case unreadableRecord(err):
		acted = r.watching(c)
	case err != nil:
		return outcome{}, together(left, err)
	}
	if c.isDegraded() {
		return acted, together(left, c.degradedReason())
	}
	if left != nil { // the nodes are not as they should be
		return acted, together(left, r.followEvidence(ctx, c), err)
	}
	failure := r.followUp(ctx, c, &acted)
	return acted, retryableFirst(failure, err)
}

// retryableFirst is what a reconcile fails with whose record of disruptions may be unreadable, too: a
// failure that passes is told first, because it has the reconcile repeated.
func retryableFirst(failure, unreadable error) error {
	if transient(failure) != nil {
		return failure
	}
	return errors.Join(unreadable, failure)
}
