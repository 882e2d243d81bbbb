package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/rounds"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// actionReconcile is the action of events.
const actionReconcile = "ReconcileTopic"

// carryOut writes the finalizer before anything is written to Kafka, and Kafka before the status that reports it.
func (r *Reconciler) carryOut(ctx context.Context, o model.Observed, d model.Decision) (outcome, error) {
	if d.Keep && o.IsOfAnotherKafka() {
		return r.disown(ctx, o)
	}
	if d.Keep {
		if err := r.patchFinalizers(ctx, o.Topic, model.KeepFor); err != nil {
			return outcome{}, err
		}
	}
	done := outcome{isPaused: d.State == condition.ReconciliationPaused}
	if d.Create != nil {
		d = r.create(ctx, o, d, &done)
	} else {
		d = r.update(ctx, o, d, &done)
	}
	done.isReady = d.Problem == nil && d.State != condition.ReconciliationPaused
	done.wake = earliest(done.wake, d.Wake)
	if d.LetGo {
		if err := r.release(ctx, o); err != nil {
			return outcome{}, err
		}
	}
	if !done.doubted.IsZero() {
		last, _ := r.memory.Of(client.ObjectKeyFromObject(o.Topic))
		done.doubted = earliest(last.outcome.doubted, done.doubted)
		if o.Now.Sub(done.doubted) < 2*rounds.Lag {
			return done, nil // another look at Kafka may show that all is well
		}
	}
	return done, r.report(ctx, o, d)
}

// disown removes the topic of another Kafka from the status before the object is kept for this one, and has it decided again.
func (r *Reconciler) disown(ctx context.Context, o model.Observed) (outcome, error) {
	status := o.Topic.Status
	status.TopicName, status.TopicID = "", ""
	_, err := r.statuses.Apply(ctx, o.Topic, &o.Topic.Status, &status)
	return outcome{wake: o.Now}, err
}

// create creates a topic that Kafka does not have.
func (r *Reconciler) create(ctx context.Context, o model.Observed, d model.Decision, done *outcome) model.Decision {
	topic, err := r.creations.create(ctx, *d.Create)
	if err != nil {
		return r.fails(d, err, o.Now, done)
	}
	r.ledger.note(d.Name, o.Now, func(held *topics.Topic) { *held = topic })
	r.options.Log.Info("created a topic", "topic", d.Name, "id", topic.ID.String(), "partitions", topic.Partitions, "replicas", topic.Most)
	r.options.Metrics.changed(created)
	if d.Lost != nil {
		r.options.Metrics.changed(recreated)
	}
	d.Created(topic, o.Now)
	return d
}

// update adds partitions and changes properties. That Kafka rejects one does not keep back the other.
func (r *Reconciler) update(ctx context.Context, o model.Observed, d model.Decision, done *outcome) model.Decision {
	grown := r.grow(ctx, o, d)
	if grown != nil && !isRejected(grown) {
		return r.fails(d, grown, o.Now, done)
	}
	altered := r.alter(ctx, o, d)
	if err := errors.Join(grown, altered); err != nil {
		return r.fails(d, err, o.Now, done)
	}
	return d
}

func (r *Reconciler) grow(ctx context.Context, o model.Observed, d model.Decision) error {
	if d.Partitions == 0 {
		return nil
	}
	if err := r.ledger.client.CreatePartitions(ctx, d.Name, d.Partitions); err != nil {
		return fmt.Errorf("no partitions are added: %w", err)
	}
	r.ledger.note(d.Name, o.Now, func(held *topics.Topic) { held.Partitions = d.Partitions })
	r.options.Log.Info("added partitions", "topic", d.Name, "partitions", d.Partitions)
	r.options.Metrics.changed(partitionsMade)
	return nil
}

func (r *Reconciler) alter(ctx context.Context, o model.Observed, d model.Decision) error {
	if d.Config.IsNone() {
		return nil
	}
	if err := r.ledger.client.AlterConfig(ctx, d.Name, d.Config); err != nil {
		return fmt.Errorf("none of %d properties is changed: %w", len(d.Config.Set)+len(d.Config.Remove), err)
	}
	r.ledger.note(d.Name, o.Now, func(held *topics.Topic) { held.Config = d.Config.Apply(held.Config) })
	r.options.Log.Info("changed properties", "topic", d.Name, "set", maps.Clone(d.Config.Set), "removed", d.Config.Remove)
	r.options.Metrics.changed(configAltered)
	return nil
}

// fails makes what Kafka says the problem of a topic.
func (r *Reconciler) fails(d model.Decision, err error, now time.Time, done *outcome) model.Decision {
	problem := r.explain(err)
	d.Problem = &problem
	r.postpone(err, now, done)
	return d
}

// report applies the status when it differs, and writes events about what has happened and about a problem that has begun.
func (r *Reconciler) report(ctx context.Context, o model.Observed, d model.Decision) error {
	wanted := model.Status(o, d)
	if isWritten, err := r.statuses.Apply(ctx, o.Topic, &o.Topic.Status, &wanted); err != nil || !isWritten {
		return err
	}
	if d.Event != nil {
		r.options.Events.Eventf(o.Topic, nil, corev1.EventTypeWarning, string(d.Event.Reason), actionReconcile, "%s", d.Event.Message)
	}
	if d.Create != nil && d.Problem == nil {
		r.options.Events.Eventf(o.Topic, nil, corev1.EventTypeNormal, string(model.TopicCreated), actionReconcile, "Created topic %s with id %s", d.Name, d.ID)
	}
	if d.Problem != nil && model.HasBegun(o.Topic.Status, *d.Problem) {
		r.options.Events.Eventf(o.Topic, nil, corev1.EventTypeWarning, string(d.Problem.Reason), actionReconcile, "%s", d.Problem.Message)
	}
	return nil
}
