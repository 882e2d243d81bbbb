package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/user/model"
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads from the cache and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Log    logr.Logger
	Clock  clock.PassiveClock
	// Ahead tells how much Clock is ahead of the API server's; nil when that is unknown.
	Ahead kube.ClockGate
	// Cluster is the Kafka whose users are looked after.
	Cluster types.NamespacedName
	// Stores says whether Secrets get PKCS#12 stores.
	Stores  authority.StoreGeneration
	Metrics *Metrics
	// SecretPrefix begins the names of users' Secrets.
	SecretPrefix string
	// ReissueRate is how many certificates that serve are reissued in a second.
	ReissueRate int
	// Kafka reads and changes what the cluster holds for users; see Connection.
	Kafka admin.UsersClient
	// Issuers are asked while the clients CA of the cluster is that of one of them.
	Issuers Issuers
	Gates   featuregate.Gates
	// Watches knows which of the watches are denied; nil where nothing is watched.
	Watches *watches.Observer
}

// Reconciler reconciles the KafkaUsers of one cluster.
type Reconciler struct {
	options  Options
	applier  *kube.Applier
	statuses *operate.Statuses
	memory   memory
	ledger   *ledger
	// renewals are those that follow from another CA of an issuer.
	renewals renewals
	// named watches the Secrets that passwords come from: they have no label.
	named *kube.Named
	turns *turns
	// users and overseer wake the two controllers.
	users, overseer operate.Bell
	progress        progressReport
	// unmanaged are the users in Kafka that are no KafkaUsers, nil while that is unknown.
	unmanaged atomic.Pointer[[]string]
}

// New returns a Reconciler. SetupWithManager starts it.
func New(options Options) *Reconciler {
	return &Reconciler{
		options: options, applier: kube.NewApplier(options.Client, model.Owner), statuses: operate.NewStatuses(options.Client, model.Owner),
		ledger: newLedger(options.Kafka),
		named:  kube.NewNamed(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}), turns: newTurns(),
	}
}

// Reconcile observes a user, decides, writes its Secret and Kafka, and reports. The Secret of a deleted user goes with
// its owner.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	now := r.options.Clock.Now()
	var user kafkav1.KafkaUser
	if err := r.options.Client.Get(ctx, request.NamespacedName, &user); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading KafkaUser %s: %w", request, err)
		}
		return r.leave(ctx, request.NamespacedName, now)
	}
	if !user.DeletionTimestamp.IsZero() {
		return r.finish(ctx, &user, now)
	}
	if ahead, isWrong := r.options.Ahead.Difference(); isWrong {
		return r.reportClock(ctx, &user, ahead, now)
	}
	r.refer(&user)
	seen, err := r.version(ctx, &user)
	if err != nil {
		return ctrl.Result{}, err
	}
	last, same := r.memory.of(request.NamespacedName, seen, now)
	if same && !last.waitsForIssuer && !r.isTurn(&user, last) && !r.isNews(ctx, &user, last, now) {
		return r.wait(&user, last, now), nil
	}
	done, err := r.bring(ctx, &user, last, now)
	if err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	r.keep(ctx, &user, seen, done)
	return r.wait(&user, done, now), nil
}

// bring makes a user current, and leaves one that is paused as it is.
func (r *Reconciler) bring(ctx context.Context, user *kafkav1.KafkaUser, last outcome, now time.Time) (outcome, error) {
	unnoticed, err := r.unnoticed(ctx)
	if err == nil {
		err = r.refreshStatus(ctx, user, unnoticed)
	}
	if err != nil {
		return outcome{}, err
	}
	var done outcome
	if model.IsPaused(user) {
		done, err = r.pause(ctx, user, unnoticed, last, now)
	} else {
		done, err = r.renew(ctx, user, unnoticed, now)
	}
	done.unnoticed = textOf(unnoticed)
	return done, err
}

// renew decides about a user, and carries that out.
func (r *Reconciler) renew(ctx context.Context, user *kafkav1.KafkaUser, unnoticed []model.Remark, now time.Time) (outcome, error) {
	observed, err := r.observe(ctx, user, now)
	if err != nil {
		return outcome{}, err
	}
	observed.Unnoticed = unnoticed
	return r.carryOut(ctx, observed, model.Decide(observed))
}

// pause says of a user that it is left as it is.
func (r *Reconciler) pause(ctx context.Context, user *kafkav1.KafkaUser, unnoticed []model.Remark, last outcome, now time.Time) (outcome, error) {
	status := model.Paused(user, unnoticed, now)
	if _, err := r.statuses.Apply(ctx, user, &user.Status, &status); err != nil {
		return outcome{}, err
	}
	secret, err := r.cachedVersion(ctx, r.secretName(user.Name))
	return outcome{secret: last.secret, secretVersion: secret, notBefore: last.notBefore, notAfter: last.notAfter, inKafka: last.inKafka}, err
}

// keep remembers what a reconcile has left, for the next one and for the check of all users.
func (r *Reconciler) keep(ctx context.Context, user *kafkav1.KafkaUser, seen version, done outcome) {
	name := client.ObjectKeyFromObject(user)
	seen.secret, seen.unnoticed = done.secretVersion, done.unnoticed
	seen.isKept = r.isKept(user)
	seen.hasDeparted = false // the status was written since
	if !done.waits {
		r.turns.end(name)
	}
	if r.memory.remember(name, seen, done) {
		r.noticed()
	}
	r.options.Metrics.saw(name, done)
	// What nodes trust may have changed before it was noted who waits for that.
	trusted, err := r.cachedVersion(ctx, authorities.Clients.TrustedCertsSecret(r.options.Cluster.Name))
	if done.awaitsTrust && (err != nil || trusted != seen.trusted) {
		r.users.Ring(name, shortPause)
	}
}

// shortPause is before a user is looked at again that changed while it was looked at.
const shortPause = time.Second

// isTurn reports whether a user need not wait any longer.
func (r *Reconciler) isTurn(user *kafkav1.KafkaUser, last outcome) bool {
	return last.waits && r.turns.has(client.ObjectKeyFromObject(user))
}

// isNews reports whether Kafka answers again or holds something else for a user than its last reconcile left there.
func (r *Reconciler) isNews(ctx context.Context, user *kafkav1.KafkaUser, last outcome, now time.Time) bool {
	kafka, exists, err := r.kafka(ctx)
	if err != nil || !exists || !isAlive(kafka) || !r.needsKafka(user) {
		return false
	}
	if err := r.look(ctx, kafka.UID, now); err != nil {
		return false
	}
	return last.waitsForKafka || r.ledger.sight(model.Usernames(user.Name)) != last.inKafka
}

// wait asks to be called again when something is due: for a user in Kafka, the next round at the latest.
func (r *Reconciler) wait(user *kafkav1.KafkaUser, done outcome, now time.Time) ctrl.Result {
	at := done.wake
	// One that is over is that of a Kafka which is gone.
	if next := r.ledger.nextLook(); r.needsKafka(user) && next.After(now) {
		at = earliest(at, next)
	}
	return waitUntil(at, now)
}

func (r *Reconciler) forget(user types.NamespacedName) {
	r.memory.forget(user)
	r.statuses.Forget(kafkav1.KindKafkaUser, user)
	r.turns.end(user)
	r.noticed()
	r.options.Metrics.forget(user)
	r.applier.Forget("v1", "Secret", user.Namespace, r.secretName(user.Name))
	r.named.Refer(user, nil)
	r.options.Issuers.Forget(user)
	for _, username := range model.Usernames(user.Name) {
		r.ledger.forget(username)
	}
}

// refer watches the Secret that the password of a user comes from.
func (r *Reconciler) refer(user *kafkav1.KafkaUser) {
	var names []string
	if reference := model.PasswordReference(user); reference != nil {
		names = []string{reference.Name}
	}
	r.named.Refer(client.ObjectKeyFromObject(user), names)
}

// waitUntil asks to be called again at a time; never when it is zero.
func waitUntil(at, now time.Time) ctrl.Result {
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), shortestWait)}
}

// shortestWait is less than passes between the passwords that are set again after a start.
const shortestWait = 20 * time.Millisecond

// earliest is the earlier of two times, of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
