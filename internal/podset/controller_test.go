package podset

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
)

// store is an API server that counts creations of pods.
type store struct {
	client.WithWatch

	created, deleted, statuses int
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, podsetv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &store{}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, ownerOfSets(), accountOfOwner())...).WithReturnManagedFields().
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				s.created++
				return to.Create(ctx, object, opts...)
			},
			Delete: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
				s.deleted++
				return to.Delete(ctx, object, opts...)
			},
			SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				s.statuses++
				return nil
			},
		}).Build()
	return s
}

func (s *store) reconciler(cached client.Client) *Reconciler {
	return NewReconciler(cached, s, s.Scheme(), clocktesting.NewFakePassiveClock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), maker())
}

func TestAPodThatTheCacheDoesNotKnowYetIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	set, pod := setOf(t, "a"), podOf("a")
	behind, live := newStore(t, set), newStore(t, set, &pod)

	result, err := live.reconciler(behind).Reconcile(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}

	if behind.created != 0 {
		t.Errorf("%d pods were created, want none", behind.created)
	}
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again, and nobody tells when the pod ends")
	}
}

func TestAPodIsNotMadeFromADescriptionThatIsNoLongerTheNewest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*podsetv1.StrimziPodSet){
		"another generation":           func(set *podsetv1.StrimziPodSet) { set.Generation++ },
		"another set of the same name": func(set *podsetv1.StrimziPodSet) { set.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := setOf(t, "a")
			newest := old.DeepCopy()
			change(newest)
			s := newStore(t, newest)

			if _, err := s.reconciler(s).Reconcile(t.Context(), old); err != nil {
				t.Fatal(err)
			}

			if s.created != 0 {
				t.Errorf("%d pods were created, want none", s.created)
			}
		})
	}
}

func TestNothingIsMadeForASetThatIsGone(t *testing.T) {
	t.Parallel()
	s := newStore(t)

	if _, err := s.reconciler(s).Reconcile(t.Context(), setOf(t, "a")); err != nil {
		t.Fatal(err)
	}

	if s.created != 0 {
		t.Errorf("%d pods were created, want none", s.created)
	}
}

func TestASetThatIsBeingDeletedIsLeftToTheGarbageCollector(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a")
	set.DeletionTimestamp = podOf("a", terminating).DeletionTimestamp
	s := newStore(t)

	if _, err := s.reconciler(s).Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	if s.created+s.deleted+s.statuses != 0 {
		t.Errorf("%d pods created, %d deleted, %d statuses written, want nothing", s.created, s.deleted, s.statuses)
	}
}

func TestAMissingPodIsMadeAsOneOfTheSetsOwn(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a")
	s := newStore(t, set)

	if _, err := s.reconciler(s).Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	var pod corev1.Pod
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != setUID {
		t.Errorf("owners are %+v, want the set", pod.OwnerReferences)
	}
}

func TestAStatusThatIsAsItShallBeIsNotWritten(t *testing.T) {
	t.Parallel()
	set, pod := setOf(t, "a"), podOf("a")
	set.Status = podsetv1.StrimziPodSetStatus{ObservedGeneration: 3, Pods: 1, ReadyPods: 1, CurrentPods: 1}
	s := newStore(t, set, &pod)

	if _, err := s.reconciler(s).Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	if s.statuses != 0 {
		t.Errorf("%d statuses were written, want none", s.statuses)
	}
}
