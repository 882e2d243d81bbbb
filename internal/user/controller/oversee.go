package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1ac "github.com/keyturn/keyturn/api/kafka/v1/applyconfiguration/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// Pauses of what is done for all users together.
const (
	// surveyPause gathers what happens to many users at the same time.
	surveyPause = time.Second
	// progressPause is between two writes of the progress; from refusal to refusal it doubles, up to the longest.
	progressPause        = 5 * time.Second
	longestProgressPause = time.Hour
)

// clientsCAVersion is what the cache shows of the two Secrets of the clients CA.
type clientsCAVersion struct{ cert, key string }

func (v version) clientsCA() clientsCAVersion { return clientsCAVersion{v.caCert, v.caKey} }

// Oversee looks at all users of the Kafka together: it gives those that wait for another certificate their turn, and
// writes the progress into the status of the Kafka.
func (r *Reconciler) Oversee(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if _, isWrong := r.options.Ahead.Difference(); isWrong {
		return ctrl.Result{RequeueAfter: kube.ClockPause}, nil
	}
	now := r.options.Clock.Now()
	kafka, _, err := r.kafka(ctx)
	if err != nil || !isAlive(kafka) {
		return ctrl.Result{}, err
	}
	users, surveyed, err := r.survey(ctx, now)
	if err != nil || surveyed.After(now) {
		return waitUntil(surveyed, now), err
	}
	batch, next := r.turns.grant(users, r.options.ReissueRate, now)
	for _, user := range batch {
		r.users.Ring(user.User, 0)
	}
	progress := model.Progress(users)
	if unmanaged := r.unmanaged.Load(); unmanaged != nil {
		model.CountUnmanaged(&progress, *unmanaged)
	}
	report := r.reportProgress(ctx, kafka, progress, now)
	return waitUntil(earliest(next, report), now), nil
}

// survey is how all users are, and when that is complete: zero when each was reconciled with the clients CA in use.
func (r *Reconciler) survey(ctx context.Context, now time.Time) (users []model.Seen, surveyed time.Time, err error) {
	var list kafkav1.KafkaUserList
	err = r.options.Client.List(ctx, &list, client.InNamespace(r.options.Cluster.Namespace),
		client.MatchingLabels{kafkamodel.ClusterLabel: r.options.Cluster.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("listing the users of Kafka %s: %w", r.options.Cluster, err)
	}
	ca, err := r.clientsCAVersion(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	ends := r.turns.surveyEnds(ca, now)
	for i := range list.Items {
		if !list.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		user, isCurrent := r.memory.seen(client.ObjectKeyFromObject(&list.Items[i]), ca)
		if !isCurrent {
			surveyed = ends
		}
		users = append(users, user)
	}
	return users, surveyed, nil
}

func (r *Reconciler) clientsCAVersion(ctx context.Context) (v clientsCAVersion, err error) {
	if v.cert, err = r.cachedVersion(ctx, authorities.Clients.CertSecret(r.options.Cluster.Name)); err != nil {
		return v, err
	}
	v.key, err = r.cachedVersion(ctx, authorities.Clients.KeySecret(r.options.Cluster.Name))
	return v, err
}

// reportProgress writes the users into the status of the Kafka when they have changed, and says when that is due if it
// is too soon. A refusal keeps no user waiting: definitions of Strimzi lack the field.
func (r *Reconciler) reportProgress(ctx context.Context, kafka *kafkav1.Kafka, users kafkav1.UsersStatus, now time.Time) time.Time {
	if r.progress.isReported(kafka.Status.Users, users) {
		return time.Time{}
	}
	if due := r.progress.due(now); due.After(now) {
		return due
	}
	if err := r.applyProgress(ctx, kafka, users); err != nil {
		r.progress = r.progress.refused(now)
		r.options.Log.Error(err, "status.users of the Kafka is not written", "nextTry", r.progress.due(now))
		return r.progress.due(now)
	}
	r.progress = progressReport{at: now, pause: progressPause, written: &users}
	return time.Time{}
}

// progressReport is what was last written of the users. One reconcile of it runs at a time.
type progressReport struct {
	at      time.Time
	pause   time.Duration
	written *kafkav1.UsersStatus
}

// isReported reports whether the Kafka has these counts. The cache may still show an older status.
func (p progressReport) isReported(shown *kafkav1.UsersStatus, users kafkav1.UsersStatus) bool {
	if p.written != nil && !equality.Semantic.DeepEqual(*p.written, users) {
		return false
	}
	return shown == nil && users.Total == 0 || shown != nil && equality.Semantic.DeepEqual(*shown, users)
}

// due is when the next may be written; a clock that was put back ends the wait.
func (p progressReport) due(now time.Time) time.Time {
	if p.at.After(now) {
		return now
	}
	return p.at.Add(p.pause)
}

func (p progressReport) refused(now time.Time) progressReport {
	p.at, p.pause = now, min(2*max(p.pause, progressPause), longestProgressPause)
	return p
}

func (r *Reconciler) applyProgress(ctx context.Context, kafka *kafkav1.Kafka, users kafkav1.UsersStatus) error {
	status := kafkav1ac.UsersStatus().WithTotal(users.Total).WithReady(users.Ready).WithReissued(users.Reissued)
	if users.Oldest != nil {
		status.WithOldest(*users.Oldest)
	}
	if users.Unmanaged != nil {
		status.WithUnmanaged(*users.Unmanaged).WithUnmanagedNames(users.UnmanagedNames...)
	}
	return r.applier.ApplyStatus(ctx, kafkav1ac.Kafka(kafka.Name, kafka.Namespace).WithUID(kafka.UID).WithStatus(kafkav1ac.KafkaStatus().WithUsers(status)))
}

// noticed has all users looked at together soon, after something has happened to one of them.
func (r *Reconciler) noticed() { r.overseer.Ring(r.options.Cluster, surveyPause) }
