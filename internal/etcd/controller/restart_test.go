package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// A client that may annotate pods must not hold up a cluster by that.
func TestAPodThatCannotBePolledIsSilentForTwoMinutesAfterItWasAsked(t *testing.T) {
	t.Parallel()
	begun := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd-0", UID: "pod", Annotations: map[string]string{contract.RestartAnnotation: "1"}}}
	for name, tt := range map[string]struct {
		mode   model.Mode
		pod    *corev1.Pod
		after  time.Duration
		silent bool
	}{
		"asked":                        {model.Dynamic, pod, startsWithin - time.Second, true},
		"asked some time ago":          {model.Dynamic, pod, startsWithin, false},
		"never asked":                  {model.Dynamic, &corev1.Pod{}, 0, false},
		"with certificates of its own": {model.Static, pod, 0, false},
		"without certificates":         {model.Insecure, pod, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pass{
				Reconciler: &Reconciler{poller: reports.New[publication.Report](clocktesting.NewFakePassiveClock(begun))},
				memory:     &memory{asked: map[string]asked{}}, cluster: model.Cluster{Names: model.Names{Mode: tt.mode}}, now: begun,
			}
			p.isSilent(tt.pod) // it is seen for the first time
			p.now = begun.Add(tt.after)
			if silent := p.isSilent(tt.pod); silent != tt.silent {
				t.Errorf("silent %s later: %t, want %t", tt.after, silent, tt.silent)
			}
		})
	}
}
