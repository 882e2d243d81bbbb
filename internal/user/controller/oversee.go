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
	"github.com/keyturn/keyturn/internal/user/model"
)

// Pauses of what is done for all users together.
const (
	// surveyPause gathers what happens to many users at the same time.
	surveyPause = time.Second
	// progressPause is between two writes of the progress.
	progressPause = 5 * time.Second
)

// clientsCAVersion is what the cache shows of the two Secrets of the clients CA.
type clientsCAVersion struct{ cert, key string }

func (v version) clientsCA() clientsCAVersion { return clientsCAVersion{v.caCert, v.caKey} }

// Oversee looks at all users of the Kafka together: it gives those that wait for another certificate their turn, and
// writes the progress into the status of the Kafka.
func (r *Reconciler) Oversee(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if _, isWrong := r.ahead(); isWrong {
		return ctrl.Result{RequeueAfter: clockPause}, nil
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
		r.users.ring(user.User, 0)
	}
	progress := model.Progress(users)
	if unmanaged := r.unmanaged.Load(); unmanaged != nil {
		model.CountUnmanaged(&progress, *unmanaged)
	}
	report, err := r.reportProgress(ctx, kafka, progress, now)
	return waitUntil(earliest(next, report), now), err
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
// is too soon.
func (r *Reconciler) reportProgress(ctx context.Context, kafka *kafkav1.Kafka, users kafkav1.UsersStatus, now time.Time) (time.Time, error) {
	stored := kafka.Status.Users
	if stored == nil && users.Total == 0 || stored != nil && equality.Semantic.DeepEqual(*stored, users) {
		return time.Time{}, nil
	}
	if due := r.reported.Add(progressPause); due.After(now) && !r.reported.After(now) {
		return due, nil
	}
	status := kafkav1ac.UsersStatus().WithTotal(users.Total).WithReady(users.Ready).WithReissued(users.Reissued)
	if users.Oldest != nil {
		status.WithOldest(*users.Oldest)
	}
	if users.Unmanaged != nil {
		status.WithUnmanaged(*users.Unmanaged).WithUnmanagedNames(users.UnmanagedNames...)
	}
	intent := kafkav1ac.Kafka(kafka.Name, kafka.Namespace).WithUID(kafka.UID).WithStatus(kafkav1ac.KafkaStatus().WithUsers(status))
	if err := r.applier.ApplyStatus(ctx, intent); err != nil {
		return time.Time{}, err
	}
	r.reported = now
	return time.Time{}, nil
}

// noticed has all users looked at together soon, after something has happened to one of them.
func (r *Reconciler) noticed() { r.overseer.ring(r.options.Cluster, surveyPause) }
