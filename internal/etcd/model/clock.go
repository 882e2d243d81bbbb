package model

import (
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/kube"
)

// ClockDiffers is the reason of Ready while nothing is issued by the operator's clock.
const ClockDiffers Reason = "ClockDiffers"

// WithClock is Ready with that reason among conditions, and whether it is new. now is by the clock that is wrong.
func WithClock(conditions []metav1.Condition, generation int64, ahead time.Duration, now time.Time) ([]metav1.Condition, bool) {
	const kind = etcdv1beta2.ConditionReady
	ready := newCondition(kind, metav1.ConditionFalse, ClockDiffers, fmt.Sprintf("The etcd operator's clock is %s the API server's. No certificate is issued, and nothing else is changed. "+
		"Set the clock of the machine that the etcd operator runs on, or that of the API server.", kube.ClockDifference(ahead)))
	ready.ObservedGeneration = generation
	before := apimeta.FindStatusCondition(conditions, kind)
	if before != nil && before.Reason == ready.Reason && before.Message == ready.Message && before.ObservedGeneration == generation {
		return conditions, false
	}
	changed := slices.Clone(conditions)
	apimeta.SetStatusCondition(&changed, ready)
	return kstatus.Standard(changed, conditions, now.Add(-ahead)), true
}
