package controller

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/connection"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// Connection is how a cluster is reached whose topics are described; see connection.Options.
func Connection(cluster types.NamespacedName, source mtls.Source, now clock.PassiveClock) admin.Options {
	return connection.Options(cluster, source, now, admin.TopicsAnswer)
}

// StoredCredentials are those of the cluster operator, and the cluster CA, as their Secrets hold them.
func StoredCredentials(live client.Reader, cluster types.NamespacedName) mtls.Source {
	return connection.StoredCredentials(live, cluster)
}

// rejectedPause is how soon a change that Kafka has rejected, or cannot make just now, is tried again.
const rejectedPause = time.Minute

// look learns what Kafka holds when that is due and a topic depends on it.
func (r *Reconciler) look(ctx context.Context, o model.Observed) error {
	if o.Kafka == nil || !model.NeedsKafka(o.Topic) {
		return nil
	}
	return r.describe(ctx, o.Kafka.UID, o.Now)
}

// describe learns what Kafka holds when that is due, and counts the topics that are no KafkaTopics.
func (r *Reconciler) describe(ctx context.Context, kafka types.UID, now time.Time) error {
	described, err := r.ledger.look(ctx, kafka, now)
	if !described {
		return err
	}
	var list kafkav1.KafkaTopicList
	if err := r.options.Client.List(ctx, &list, client.InNamespace(r.options.Cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		r.options.Log.Error(err, "listing KafkaTopics to count all other topics")
		return nil
	}
	names := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		names[model.Name(&list.Items[i])] = true
	}
	r.options.Metrics.sawUnmanaged(model.CountOutside(r.ledger.names(), func(name string) bool { return names[name] }))
	return nil
}

// postpone says when what Kafka has not done is tried again.
func (r *Reconciler) postpone(err error, now time.Time, done *outcome) {
	_, isUnknown := errors.AsType[*admin.UnknownTopicError](err)
	switch {
	case isUnknown, admin.IsExisting(err):
		r.ledger.doubt(now)
		done.waitsForKafka, done.doubted = true, now
	case isRejected(err), admin.IsPassing(err):
		done.wake = earliest(done.wake, now.Add(rejectedPause))
	default:
		done.waitsForKafka = true
		r.ledger.failed(err, now)
	}
}

// isRejected reports whether Kafka has answered and does not accept a change.
func isRejected(err error) bool {
	_, is := errors.AsType[*admin.RejectedError](err)
	return is
}

// explain says what is wrong with Kafka, and what to do.
func (r *Reconciler) explain(err error) model.Remark {
	name := r.options.Cluster.Name
	const unchanged = "The topic is not up to date in Kafka. "
	missing, isMissing := errors.AsType[*connection.CredentialsError](err)
	unknown, isUnknown := errors.AsType[*admin.UnknownTopicError](err)
	switch {
	case isMissing:
		return model.Remark{Reason: model.KafkaUnreachable, Message: fmt.Sprintf("%s. %sThe cluster operator creates the Secret with the Kafka. It is tried again.", missing, unchanged)}
	case admin.IsDeletionDisabled(err):
		return model.DeletionDisabled(name)
	case isUnknown:
		return model.Remark{Reason: model.KafkaError, Message: fmt.Sprintf("In Kafka, %s, although it was listed before. %sIt is tried again.", unknown, unchanged)}
	case admin.IsExisting(err):
		return model.Remark{Reason: model.KafkaError, Message: "Kafka has a topic of this name, although it was not listed before. " + unchanged + "It is tried again."}
	case isRejected(err):
		why := strings.ReplaceAll(strings.TrimRight(err.Error(), ".: "), "\n", "; ")
		return model.Remark{Reason: model.KafkaError, Message: fmt.Sprintf("Kafka rejects a change: %s. %sCorrect the spec of the KafkaTopic.", why, unchanged)}
	case admin.IsUnauthorized(err):
		return model.Remark{Reason: model.NotAuthorized, Message: fmt.Sprintf("Kafka does not let the topic operator change topics: %s. %s"+
			"Check that the user of the topic operator is among super.users of every node of Kafka %s.", err, unchanged, name)}
	case !admin.IsUnanswered(err):
		return model.Remark{Reason: model.KafkaError, Message: fmt.Sprintf("Kafka %s answers, and the topic operator cannot go on: %s. %sIt is tried again.", name, steady(err), unchanged)}
	default:
		return model.Remark{Reason: model.KafkaUnreachable, Message: fmt.Sprintf("Kafka %s does not answer the topic operator: %s. %sIt is tried again. "+
			"Check that its brokers run, and that no network policy closes port 9091 to the topic operator.", name, steady(err), unchanged)}
	}
}

// steady is the text of an error without the own port of a connection, which differs each time: a condition whose text changes would
// be written again and again.
func steady(err error) string { return regexp.MustCompile(`\S+->`).ReplaceAllString(err.Error(), "") }
