package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads from the cache, which has the index of SetupWithManager, and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Log    logr.Logger
	Clock  clock.PassiveClock
	// Cluster is the Kafka whose topics are looked after.
	Cluster types.NamespacedName
	Metrics *Metrics
	// Kafka reads and changes topics; see Connection.
	Kafka admin.TopicsClient
	// Watches knows which of the watches are denied; nil where nothing is watched.
	Watches *watches.Observer
}

// Reconciler reconciles the KafkaTopics of one cluster.
type Reconciler struct {
	options   Options
	statuses  *operate.Statuses
	memory    memory
	ledger    *ledger
	creations *creations
}

// New returns a Reconciler. SetupWithManager starts it.
func New(options Options) *Reconciler {
	return &Reconciler{
		options: options, statuses: operate.NewStatuses(options.Client, model.Owner), ledger: newLedger(options.Kafka),
		creations: &creations{client: options.Kafka},
	}
}

// outcome is how a topic is after a reconcile.
type outcome struct {
	isReady, isPaused bool
	wake              time.Time
	// waitsForKafka: Kafka did not answer, and the topic is looked at again when it does.
	waitsForKafka bool
	// doubted is since when Kafka shows that a topic is otherwise than it was described, zero where it does not.
	doubted time.Time
	// inKafka is what Kafka has been left with.
	inKafka uint64
	// unnoticed is which denied watches were reported.
	unnoticed string
}

// Reconcile observes a topic, decides, changes Kafka, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	now := r.options.Clock.Now()
	var topic kafkav1.KafkaTopic
	if err := r.options.Client.Get(ctx, request.NamespacedName, &topic); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading KafkaTopic %s: %w", request, err)
		}
		return ctrl.Result{}, r.leave(ctx, request.NamespacedName, now)
	}
	seen, err := r.version(ctx, &topic)
	if err != nil {
		return ctrl.Result{}, err
	}
	last, same := r.memory.last(request.NamespacedName, seen, now)
	if same && !r.isNews(ctx, &topic, last, now) {
		return r.wait(&topic, last, now), nil
	}
	done, err := r.bring(ctx, &topic, now)
	if err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	r.keep(&topic, seen, done)
	return r.wait(&topic, done, now), nil
}

// bring makes a topic current.
func (r *Reconciler) bring(ctx context.Context, topic *kafkav1.KafkaTopic, now time.Time) (outcome, error) {
	unnoticed := r.unnoticed()
	if err := r.refreshStatus(ctx, topic, unnoticed); err != nil {
		return outcome{}, err
	}
	o, err := r.observe(ctx, topic, now)
	if err != nil {
		return outcome{}, err
	}
	o.Unnoticed = unnoticed
	done, err := r.act(ctx, o)
	done.unnoticed = textOf(unnoticed)
	return done, err
}

// act decides about a topic and carries that out. No round of descriptions comes between.
func (r *Reconciler) act(ctx context.Context, o model.Observed) (outcome, error) {
	err := r.look(ctx, o)
	r.ledger.gate.RLock()
	defer r.ledger.gate.RUnlock()
	if err != nil {
		problem := r.explain(err)
		o.Unknown = &problem
	} else {
		o.Held = r.ledger.held(model.Name(o.Topic))
	}
	done, err := r.change(ctx, o)
	done.waitsForKafka = done.waitsForKafka || o.Unknown != nil
	done.inKafka = r.ledger.sight(model.Name(o.Topic))
	return done, err
}

func (r *Reconciler) change(ctx context.Context, o model.Observed) (outcome, error) {
	if o.Topic.DeletionTimestamp.IsZero() {
		return r.carryOut(ctx, o, model.Decide(o))
	}
	return r.finish(ctx, o, model.DecideDeletion(o))
}

// keep remembers what a reconcile has left, for the next one.
func (r *Reconciler) keep(topic *kafkav1.KafkaTopic, seen version, done outcome) {
	name := client.ObjectKeyFromObject(topic)
	seen.unnoticed = done.unnoticed
	seen.hold = r.hold(topic)
	seen.hasDeparted = false // the status was written since
	r.memory.Put(name, remembered{seen, done})
	r.options.Metrics.saw(name, done)
}

// isNews reports whether Kafka answers again or holds something else of a topic than its last reconcile left there.
func (r *Reconciler) isNews(ctx context.Context, topic *kafkav1.KafkaTopic, last outcome, now time.Time) bool {
	kafka, exists, err := r.kafka(ctx)
	if err != nil || !exists || !isAlive(kafka) || !model.NeedsKafka(topic) {
		return false
	}
	if err := r.describe(ctx, kafka.UID, now); err != nil {
		return false
	}
	return last.waitsForKafka || r.ledger.sight(model.Name(topic)) != last.inKafka
}

// wait asks to be called again when something is due: for a topic in Kafka, the next round at the latest.
func (r *Reconciler) wait(topic *kafkav1.KafkaTopic, done outcome, now time.Time) ctrl.Result {
	at := done.wake
	// One that is over is that of a Kafka which is gone.
	if next := r.ledger.nextLook(); model.NeedsKafka(topic) && next.After(now) {
		at = earliest(at, next)
	}
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), shortestWait)}
}

// shortestWait keeps what is due already from being asked for without a pause.
const shortestWait = 20 * time.Millisecond

// earliest is the earlier of two times, of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (r *Reconciler) forget(topic types.NamespacedName) {
	r.memory.Forget(topic)
	r.statuses.Forget(kafkav1.KindKafkaTopic, topic)
	r.options.Metrics.forget(topic)
}
