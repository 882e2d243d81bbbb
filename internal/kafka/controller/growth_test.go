package controller

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// growing is a claim whose file system waits for being mounted since a time.
func growing(since time.Time) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data-my-dual-0"},
		Status: corev1.PersistentVolumeClaimStatus{Conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since.Add(-time.Hour))},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)},
		}},
	}
}

// withClaim is a reconcile over a node with one claim.
func withClaim(claim *corev1.PersistentVolumeClaim) (*applied, model.Node) {
	c := clusterOf(smallKafka(), nil)
	node := model.Node{Pool: "dual", Pod: "my-dual-0"}
	c.cluster.Pools = []model.Pool{{Name: "dual", Volumes: []model.Volume{{Name: "data", Type: kafkav1.StoragePersistentClaim}}}}
	c.claims = map[string]*corev1.PersistentVolumeClaim{}
	if claim != nil {
		c.claims["data-my-dual-0"] = claim
	}
	return c, node
}

func TestAPodIsRestartedForAVolumeThatItsKubeletDoesNotGrow(t *testing.T) {
	t.Parallel()
	began := noon().Add(-time.Hour)
	resized := growing(began)
	resized.Status.Conditions[1].Status = corev1.ConditionFalse
	for name, c := range map[string]struct {
		claim    *corev1.PersistentVolumeClaim
		pod      time.Time
		restarts bool
		wake     time.Time
	}{
		"it has waited for long":             {growing(began), began.Add(-time.Hour), true, time.Time{}},
		"it has waited for just long enough": {growing(noon().Add(-growthPatience)), began, true, time.Time{}},
		"the kubelet may still do it":        {growing(noon().Add(time.Second - growthPatience)), began, false, noon().Add(time.Second)},
		"the pod was made since":             {growing(began), began.Add(time.Second), false, time.Time{}},
		"it has grown":                       {resized, began.Add(-time.Hour), false, time.Time{}},
		"nothing has changed":                {&corev1.PersistentVolumeClaim{}, began, false, time.Time{}},
		"there is no claim":                  {nil, began, false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, node := withClaim(c.claim)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.pod)}}
			if reasons := p.growthReasons(node, pod); (len(reasons) == 1) != c.restarts {
				t.Errorf("it is restarted for %v", reasons)
			}
			if woken := len(p.wakeAt) == 1 && p.wakeAt[0].Equal(c.wake); woken == c.wake.IsZero() {
				t.Errorf("it is looked at again at %v, want %s", p.wakeAt, c.wake)
			}
		})
	}
}

func TestAVolumeThatMayNotGrowIsToldAndKeepsNothingElseFromBeingDone(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data-my-dual-0", errors.New("only dynamically provisioned claims can be resized"))
	ofClaim := intended{objectID: objectID{claimKind().GroupKind(), "data-my-dual-0"}}
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		object intended
		err    error
		want   bool
	}{
		"it exists, and may not grow": {growing(noon()), ofClaim, refused, true},
		"its size is not valid": {
			growing(noon()), ofClaim, apierrors.NewInvalid(claimKind().GroupKind(), "data-my-dual-0", nil), true,
		},
		"nobody answers":          {growing(noon()), ofClaim, apierrors.NewServiceUnavailable("later"), false},
		"it is no answer":         {growing(noon()), ofClaim, errors.New("no connection"), false},
		"it may not even be made": {nil, ofClaim, refused, false},
		"it is another object":    {growing(noon()), intended{objectID: objectID{configMapKind().GroupKind(), "data-my-dual-0"}}, refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := withClaim(c.claim)
			if got := p.keepsSize(c.object, c.err); got != c.want || (len(p.notes) == 1) != c.want {
				t.Errorf("it keeps its size: %t; it is said: %v", got, p.notes)
			}
		})
	}
}
