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
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// fieldOwner owns what this controller applies.
const fieldOwner = "keyturn-user-operator"

// Options are what a Reconciler works with.
type Options struct {
	// Client reads from the cache and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Log    logr.Logger
	Clock  clock.PassiveClock
	// Cluster is the Kafka whose users are looked after.
	Cluster types.NamespacedName
	// Stores says whether Secrets get PKCS#12 stores.
	Stores  authority.StoreGeneration
	Metrics *Metrics
}

// Reconciler reconciles the KafkaUsers of one cluster.
type Reconciler struct {
	options Options
	applier *kube.Applier
	memory  *memory
}

// New returns a Reconciler. SetupWithManager starts it.
func New(options Options) *Reconciler {
	return &Reconciler{options: options, applier: kube.NewApplier(options.Client, fieldOwner), memory: newMemory()}
}

// Reconcile observes a user, decides, writes its Secret and reports. The Secret of a deleted user goes with
// its owner.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var user kafkav1.KafkaUser
	if err := r.options.Client.Get(ctx, request.NamespacedName, &user); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading KafkaUser %s: %w", request, err)
		}
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if !user.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	now := r.options.Clock.Now()
	seen, err := r.version(ctx, &user)
	if err != nil {
		return ctrl.Result{}, err
	}
	if last, same := r.memory.of(request.NamespacedName, seen, now); same {
		return waitUntil(last.wake, now), nil
	}
	observed, err := r.observe(ctx, &user, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	done, err := r.carryOut(ctx, observed, model.Decide(observed))
	if err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	seen.secret = done.secretVersion
	r.memory.remember(request.NamespacedName, seen, done)
	r.options.Metrics.saw(request.NamespacedName, done)
	return waitUntil(done.wake, now), nil
}

func (r *Reconciler) forget(user types.NamespacedName) {
	r.memory.forget(user)
	r.options.Metrics.forget(user)
	r.applier.Forget("v1", "Secret", user.Namespace, user.Name)
}

// waitUntil asks to be called again at a time; never when it is zero.
func waitUntil(at, now time.Time) ctrl.Result {
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), time.Second)}
}
