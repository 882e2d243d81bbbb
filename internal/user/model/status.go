package model

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// Status is what the status of a user shall be. secret is the name of the Secret that holds its credentials,
// empty when there is none.
func Status(o Observed, d Decision, secret string) kafkav1.KafkaUserStatus {
	wanted := make([]condition.Condition, 0, len(d.Warnings)+1)
	for _, warning := range d.Warnings {
		wanted = append(wanted, newCondition(condition.Warning, warning))
	}
	if d.Problem != nil {
		wanted = append(wanted, newCondition(condition.NotReady, *d.Problem))
	} else {
		wanted = append(wanted, newCondition(condition.Ready, Remark{}))
	}
	return kafkav1.KafkaUserStatus{
		Conditions:         kstatus.Strimzi(wanted, o.User.Status.Conditions, o.Now),
		ObservedGeneration: o.User.Generation,
		Username:           d.Username,
		Secret:             secret,
	}
}

// IsPaused reports whether a person asks for a user to be left as it is.
func IsPaused(user *kafkav1.KafkaUser) bool {
	return kafkamodel.Says(user.Annotations, kafkamodel.PauseAnnotation, "true")
}

// Paused is the status of a user that is left as it is, with warnings.
func Paused(user *kafkav1.KafkaUser, warnings []Remark, now time.Time) kafkav1.KafkaUserStatus {
	status := *user.Status.DeepCopy()
	status.ObservedGeneration = user.Generation
	wanted := make([]condition.Condition, 0, len(warnings)+1)
	for _, warning := range warnings {
		wanted = append(wanted, newCondition(condition.Warning, warning))
	}
	status.Conditions = kstatus.Strimzi(append(wanted, newCondition(condition.ReconciliationPaused, Remark{
		ReconciliationPaused,
		"The annotation " + kafkamodel.PauseAnnotation + " is true. The Secret of the user and what Kafka holds for it are not changed, and its certificate is not renewed. " +
			"Remove the annotation to continue.",
	})), user.Status.Conditions, now)
	return status
}

// NotWritten is why a user's Secret cannot be written until a person changes something; nil when it was, or when it may be the
// next time.
func NotWritten(secret string, err error) *Remark {
	detail := func() string { return excerpt.Of(err.Error(), excerpt.Foreign) }
	switch {
	case apierrors.IsInvalid(err):
		return &Remark{InvalidSecret, fmt.Sprintf("The API server rejects Secret %s: %s. Credentials that were stored stay in use, and are not renewed. "+
			"Correct spec.template.secret, or delete the Secret if it is immutable.", secret, detail())}
	case apierrors.IsForbidden(err):
		return &Remark{Forbidden, fmt.Sprintf("The user operator may not write Secret %s: %s. Credentials that were stored stay in use, and are not renewed. "+
			"Give its account the rights of the chart, or correct what forbids it.", secret, detail())}
	default:
		return nil
	}
}

func newCondition(kind condition.Type, r Remark) condition.Condition {
	return condition.Condition{Type: kind, Status: condition.True, Reason: string(r.Reason), Message: r.Message}
}

// HasBegun reports whether a status does not tell of a problem yet.
func HasBegun(status kafkav1.KafkaUserStatus, problem Remark) bool {
	return !slices.ContainsFunc(status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.NotReady && c.Reason == string(problem.Reason)
	})
}

// Departed is the problem of a user whose label does not name this Kafka any more.
func Departed(user *kafkav1.KafkaUser, kafka string) Remark {
	now := "names no Kafka"
	if label := user.Labels[kafkamodel.ClusterLabel]; label != "" {
		now = "names Kafka " + label
	}
	return Remark{ClusterLabelChanged, fmt.Sprintf("The label %s %s and not %s any more. The credentials of the user are not renewed, and its rights in Kafka %s "+
		"are removed. Correct the label, or start the user operator of the Kafka that it names.", kafkamodel.ClusterLabel, now, kafka, kafka)}
}

// HasDeparted reports whether a user operator has said so in a status.
func HasDeparted(status kafkav1.KafkaUserStatus) bool {
	return !HasBegun(status, Remark{Reason: ClusterLabelChanged})
}
