package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/kube"
)

// ClockWarning is the warning about a clock that is ahead of the API server's, or behind.
func ClockWarning(ahead time.Duration) Remark {
	return Remark{ClockDiffers, fmt.Sprintf("The user operator's clock is %s the API server's. No certificate of the user is issued, and nothing else of it is changed. "+
		"Set the clock of the machine that the user operator runs on, or that of the API server.", kube.ClockDifference(ahead))}
}

// WithClock puts that warning into a status, and reports whether it was not there. now is by the clock that is wrong.
func WithClock(status kafkav1.KafkaUserStatus, ahead time.Duration, now time.Time) (kafkav1.KafkaUserStatus, bool) {
	warning := newCondition(condition.Warning, ClockWarning(ahead))
	if slices.ContainsFunc(status.Conditions, func(c condition.Condition) bool { return c.Reason == warning.Reason && c.Message == warning.Message }) {
		return status, false
	}
	warned := slices.DeleteFunc(slices.Clone(status.Conditions), func(c condition.Condition) bool { return c.Reason == warning.Reason })
	status.Conditions = kstatus.Strimzi(append(warned, warning), status.Conditions, now.Add(-ahead))
	return status, true
}
