package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/connection"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/user/model"
)

// rejectedPause is how soon a change that Kafka has rejected is tried again.
const rejectedPause = time.Minute

// needsKafka reports whether Kafka holds something for a user, or shall.
func (r *Reconciler) needsKafka(user *kafkav1.KafkaUser) bool {
	return model.IsInKafka(user) || r.isKept(user)
}

// look learns what Kafka holds for users when that is due, and counts those that are no KafkaUsers.
func (r *Reconciler) look(ctx context.Context, kafka types.UID, now time.Time) error {
	described, err := r.ledger.look(ctx, kafka, now)
	if !described {
		return err
	}
	var users kafkav1.KafkaUserList
	if err := r.options.Client.List(ctx, &users, client.InNamespace(r.options.Cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing KafkaUsers: %w", err)
	}
	names := make(map[string]bool, len(users.Items))
	for i := range users.Items {
		names[users.Items[i].Name] = true
	}
	unmanaged := model.Unmanaged(r.ledger.all(), func(name string) bool { return names[name] })
	r.options.Metrics.sawUnmanaged(len(unmanaged))
	r.unmanaged.Store(&unmanaged)
	r.noticed()
	return nil
}

// keepInKafka makes Kafka hold what a user wants, once its Secret is written, and reports whether it does. What stands
// in the way is the problem of the decision.
func (r *Reconciler) keepInKafka(ctx context.Context, o model.Observed, d *model.Decision, done *outcome) bool {
	if !isAlive(o.Kafka) || !r.needsKafka(o.User) {
		return true
	}
	err := r.look(ctx, o.Kafka.UID, o.Now)
	if err == nil {
		err = r.change(ctx, o, d, done)
	}
	if err == nil {
		return true
	}
	if d.Problem == nil {
		problem := r.explain(err)
		d.Problem = &problem
	}
	r.postpone(err, o.Now, done)
	return false
}

// postpone says when what Kafka has not done is tried again.
func (r *Reconciler) postpone(err error, now time.Time, done *outcome) {
	if isRejected(err) {
		done.wake = earliest(done.wake, now.Add(rejectedPause))
		return
	}
	done.waitsForKafka = true
	r.ledger.failed(err, now)
}

// isAlive reports whether there is a Kafka to keep users in.
func isAlive(kafka *kafkav1.Kafka) bool { return kafka != nil && kafka.DeletionTimestamp.IsZero() }

// isRejected reports whether Kafka has answered and does not accept a change.
func isRejected(err error) bool {
	_, is := errors.AsType[*admin.RejectedError](err)
	return is
}

// change carries out what a user lacks in Kafka, and then what it has in excess. A rejected addition does not let a user
// keep rights that were taken from it; what limits the user stays until what replaces it is accepted.
func (r *Reconciler) change(ctx context.Context, o model.Observed, d *model.Decision, done *outcome) error {
	r.ledger.gate.RLock()
	defer r.ledger.gate.RUnlock()
	authorizes := r.ledger.isAuthorizing()
	if o.User.Spec.Authorization != nil && !authorizes && d.Problem == nil {
		problem := model.WithoutAuthorization(o.Kafka)
		d.Problem = &problem
	}
	plan := model.PlanChange(o.User, r.ledger.held, authorizes)
	defer func() { done.inKafka = r.ledger.sight(model.Usernames(o.User.Name)) }()
	rejected := r.addAll(ctx, plan, d, o.Now, done)
	if rejected != nil && !isRejected(rejected) {
		return rejected
	}
	if rejected != nil {
		plan = plan.WithLimitsKept()
	}
	if err := r.remove(ctx, plan, o.Now); err != nil {
		return err
	}
	return rejected
}

// addAll adds all that Kafka accepts: what it rejects does not keep back the rest.
func (r *Reconciler) addAll(ctx context.Context, plan model.Plan, d *model.Decision, now time.Time, done *outcome) error {
	var rejected error
	for _, of := range plan {
		err := r.add(ctx, of, now)
		if err != nil && !isRejected(err) {
			return err
		}
		rejected = errors.Join(rejected, err)
	}
	if d.Password == "" {
		return rejected
	}
	if err := r.setPassword(ctx, d, now, done); err != nil {
		return err
	}
	return rejected
}

func (r *Reconciler) add(ctx context.Context, of model.UserChange, now time.Time) error {
	err := r.ledger.client.CreateACLs(ctx, of.Username, of.Create)
	if err == nil && len(of.Create) > 0 {
		r.ledger.note(of.Username, now, func(h *principal.Held) { h.ACLs = slices.Concat(h.ACLs, of.Create) })
	}
	if err != nil && !isRejected(err) {
		return err
	}
	limited := r.ledger.client.AlterQuotas(ctx, of.Username, of.Set, nil)
	if limited == nil && len(of.Set) > 0 {
		r.ledger.note(of.Username, now, func(h *principal.Held) { maps.Copy(h.Quotas, of.Set) })
	}
	if limited != nil && !isRejected(limited) {
		return limited
	}
	return errors.Join(err, limited)
}

// setPassword makes Kafka accept the password of the Secret, unless it is known to.
func (r *Reconciler) setPassword(ctx context.Context, d *model.Decision, now time.Time, done *outcome) error {
	due := r.ledger.passwordDue(d.Username, d.Password, now)
	if due.After(now) {
		done.wake = earliest(done.wake, due)
		return nil
	}
	if due.IsZero() {
		return nil
	}
	if err := r.ledger.client.UpsertPassword(ctx, d.Username, d.Password); err != nil {
		return err
	}
	r.ledger.prove(d.Username, d.Password)
	r.ledger.note(d.Username, now, func(h *principal.Held) { h.HasPassword = true })
	return nil
}

// remove takes passwords away first and quotas last: a user that can still connect is still limited.
func (r *Reconciler) remove(ctx context.Context, plan model.Plan, now time.Time) error {
	for _, of := range plan {
		if of.Revoke {
			if err := r.ledger.client.RevokePassword(ctx, of.Username); err != nil {
				return err
			}
			r.ledger.forget(of.Username)
		}
		if err := r.ledger.client.DeleteACLs(ctx, of.Username, of.Delete); err != nil {
			return err
		}
		if err := r.ledger.client.AlterQuotas(ctx, of.Username, nil, of.Unset); err != nil {
			return err
		}
		if !of.Revoke && len(of.Delete)+len(of.Unset) == 0 {
			continue
		}
		r.ledger.note(of.Username, now, func(h *principal.Held) {
			h.HasPassword = h.HasPassword && !of.Revoke
			h.ACLs = slices.DeleteFunc(slices.Clone(h.ACLs), func(acl principal.ACL) bool { return slices.Contains(of.Delete, acl) })
			for _, key := range of.Unset {
				delete(h.Quotas, key)
			}
		})
	}
	return nil
}

// explain says what is wrong with Kafka, and what to do.
func (r *Reconciler) explain(err error) model.Remark {
	name := r.options.Cluster.Name
	const unchanged = "ACLs, quotas and the password of the user are not up to date in Kafka. "
	missing, isMissing := errors.AsType[*connection.CredentialsError](err)
	rejected, wasRejected := errors.AsType[*admin.RejectedError](err)
	switch {
	case isMissing:
		return model.Remark{Reason: model.KafkaUnreachable, Message: fmt.Sprintf("%s. %sThe cluster operator creates the Secret with the Kafka. It is tried again.", missing, unchanged)}
	case wasRejected:
		return model.Remark{Reason: model.RejectedByKafka, Message: fmt.Sprintf("Kafka rejects a change: %s. %sCorrect spec.authorization or spec.quotas.", rejected, unchanged)}
	case admin.IsUnauthorized(err):
		return model.Remark{Reason: model.NotAuthorized, Message: fmt.Sprintf("Kafka does not let the user operator change users: %s. %s"+
			"Check that User:CN=cluster-operator,O=io.strimzi is among super.users of every node of Kafka %s.", err, unchanged, name)}
	case !admin.IsUnanswered(err):
		return model.Remark{Reason: model.RejectedByKafka, Message: fmt.Sprintf("Kafka %s answers, and the user operator cannot go on: %s. %sIt is tried again.", name, steady(err), unchanged)}
	default:
		return model.Remark{Reason: model.KafkaUnreachable, Message: fmt.Sprintf("Kafka %s does not answer the user operator: %s. %sIt is tried again. "+
			"Check that its brokers run, and that no network policy closes port 9091 to the user operator.", name, steady(err), unchanged)}
	}
}

// steady is the text of an error without the own port of a connection, which differs each time: a condition whose
// text changes would be written again and again.
func steady(err error) string { return regexp.MustCompile(`\S+->`).ReplaceAllString(err.Error(), "") }
