package operate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// News is a condition that has another status or reason than before; nil when it has not, or is not there.
func News(before, now []metav1.Condition, kind string) *metav1.Condition {
	condition, old := apimeta.FindStatusCondition(now, kind), apimeta.FindStatusCondition(before, kind)
	if condition == nil || old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
		return nil
	}
	return condition
}

// maxNote is how many bytes of a message an event has. The API server rejects events of more than 1024.
const maxNote = 1000

// Events writes events about conditions.
type Events struct {
	Recorder events.EventRecorder
	// Action is what events say was done.
	Action string
}

// Announce writes an event about news, and nothing when they are nil. It is a warning unless the condition is True or its reason
// is one of those that pass by themselves.
func (e Events) Announce(of runtime.Object, news *metav1.Condition, passing ...string) {
	switch {
	case news == nil:
	case news.Status == metav1.ConditionTrue, slices.Contains(passing, news.Reason):
		e.Write(of, corev1.EventTypeNormal, news)
	default:
		e.Write(of, corev1.EventTypeWarning, news)
	}
}

// Write writes an event of a type about a condition.
func (e Events) Write(of runtime.Object, kind string, condition *metav1.Condition) {
	e.Recorder.Eventf(of, nil, kind, condition.Reason, e.Action, "%s", excerpt.Ends(condition.Message, maxNote))
}
