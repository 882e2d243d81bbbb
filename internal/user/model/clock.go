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

// WithClock adds that warning to a status, and reports whether it was not there. now is by the clock that is wrong.
func WithClock(status kafkav1.KafkaUserStatus, ahead time.Duration, now time.Time) (kafkav1.KafkaUserStatus, bool) {
	if slices.ContainsFunc(status.Conditions, func(c condition.Condition) bool { return c.Reason == string(ClockDiffers) }) {
		return status, false
	}
	warned := append(slices.Clone(status.Conditions), newCondition(condition.Warning, ClockWarning(ahead)))
	status.Conditions = kstatus.Strimzi(warned, status.Conditions, now.Add(-ahead))
	return status, true
}
