package model_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/etcd/model"
)

func TestWhatWaitsLongIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	since := func(ago time.Duration, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, LastTransitionTime: metav1.NewTime(noon().Add(-ago))}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       time.Duration
	}{
		"it has not waited":         {nil, 30 * time.Second},
		"it was ready for long":     {since(time.Hour, metav1.ConditionTrue), 30 * time.Second},
		"it waits for 10 seconds":   {since(10*time.Second, metav1.ConditionFalse), 30 * time.Second},
		"it waits for 2 minutes":    {since(2*time.Minute, metav1.ConditionFalse), 2 * time.Minute},
		"it waits for an hour":      {since(time.Hour, metav1.ConditionFalse), 10 * time.Minute},
		"the clock was set back":    {since(-time.Hour, metav1.ConditionFalse), 30 * time.Second},
		"it has another condition":  {[]metav1.Condition{{Type: "Other", Status: metav1.ConditionFalse}}, 30 * time.Second},
		"it is not known for which": {since(time.Minute, metav1.ConditionUnknown), time.Minute},
	} {
		if got := model.Again(test.conditions, 30*time.Second, noon()); got != test.want {
			t.Errorf("%s: it is looked at again after %s, want %s", name, got, test.want)
		}
	}
}
