package podset

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// store is an API server that counts what is done to pods, and how often one is looked up.
type store struct {
	client.WithWatch

	created, deleted, statuses, looks int
	// reported is told of each status, if it is set.
	reported func(podsetv1.StrimziPodSetStatus)
	// denied is the name of the pod that may not be created.
	denied string
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	scheme := kubetest.Scheme(t, podsetv1.AddToScheme)
	s := &store{}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, ownerOfSets(), accountOfOwner())...).WithReturnManagedFields().
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, pod := object.(*corev1.Pod); pod {
					s.looks++
				}
				return to.Get(ctx, key, object, opts...)
			},
			Create: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				if object.GetName() == s.denied {
					return apierrors.NewForbidden(corev1.Resource("pods"), s.denied, errors.New("the quota is used up"))
				}
				s.created++
				return to.Create(ctx, object, opts...)
			},
			Delete: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
				s.deleted++
				return to.Delete(ctx, object, opts...)
			},
			SubResourceApply: func(_ context.Context, _ client.Client, _ string, intent runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
				s.statuses++
				var set podsetv1.StrimziPodSet
				text, err := json.Marshal(intent)
				if err == nil {
					err = json.Unmarshal(text, &set)
				}
				if err == nil && s.reported != nil {
					s.reported(set.Status)
				}
				return err
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

	result, err := live.reconciler(behind).keep(t.Context(), set)
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

			if _, err := s.reconciler(s).keep(t.Context(), old); err != nil {
				t.Fatal(err)
			}

			if s.created != 0 {
				t.Errorf("%d pods were created, want none", s.created)
			}
		})
	}
}

func TestAPodThatIsDeniedStopsNoOther(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a", "b", "c")
	s := newStore(t, set)
	s.denied = "a"
	var said string
	s.reported = func(status podsetv1.StrimziPodSetStatus) { said = status.Conditions[0].Message }

	result, err := s.reconciler(s).keep(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}

	if s.created != 2 || !strings.Contains(said, "pod a is denied") || !strings.Contains(said, "quota") {
		t.Errorf("%d pods were created, want two; the status says %q", s.created, said)
	}
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again, and nobody tells when there is room")
	}
}

func TestNothingIsMadeForASetThatIsGone(t *testing.T) {
	t.Parallel()
	s := newStore(t)

	if _, err := s.reconciler(s).keep(t.Context(), setOf(t, "a")); err != nil {
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

	if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
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

	if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
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

	if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	if s.statuses != 0 {
		t.Errorf("%d statuses were written, want none", s.statuses)
	}
}

func TestPodsAreLookedForPastTheCacheOnlyWhereTheyWouldBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*podsetv1.StrimziPodSet)
		looks  int
	}{
		"the maker's, of its owner": {func(*podsetv1.StrimziPodSet) {}, 3},
		"of nobody":                 {func(s *podsetv1.StrimziPodSet) { s.OwnerReferences = nil }, 0},
		"whose pods another wrote": {func(s *podsetv1.StrimziPodSet) {
			s.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:selector":{}}}`)
		}, 0},
		"of another maker": {func(s *podsetv1.StrimziPodSet) { s.ManagedFields = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(t, "evil-a", "evil-b", "evil-c")
			c.change(set)
			cached, live := newStore(t, set), newStore(t, set)

			if _, err := live.reconciler(cached).keep(t.Context(), set); err != nil {
				t.Fatal(err)
			}

			if live.looks != c.looks {
				t.Errorf("%d pods were looked for, want %d", live.looks, c.looks)
			}
		})
	}
}

func TestASetThatIsRefusedSaysSoAndStillCountsItsPods(t *testing.T) {
	t.Parallel()
	set, pod := setOf(t, "a", "b"), podOf("a")
	set.OwnerReferences = nil
	s := newStore(t, set, &pod)
	var status podsetv1.StrimziPodSetStatus
	s.reported = func(to podsetv1.StrimziPodSetStatus) { status = to }

	result, err := s.reconciler(s).keep(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}

	if status.Pods != 1 || len(status.Conditions) != 1 || !strings.Contains(status.Conditions[0].Message, "belongs to no ConfigMap") {
		t.Errorf("its status is %+v", status)
	}
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again, and nobody tells when what was wrong is put right")
	}
}

// Nothing is refused where nothing is missing.
func TestASetThatWouldBeRefusedSaysNothingWhileItHasItsPods(t *testing.T) {
	t.Parallel()
	set, pod := setOf(t, "a"), podOf("a")
	set.OwnerReferences = nil
	s := newStore(t, set, &pod)
	var status podsetv1.StrimziPodSetStatus
	s.reported = func(to podsetv1.StrimziPodSetStatus) { status = to }

	result, err := s.reconciler(s).keep(t.Context(), set)

	if err != nil || status.Pods != 1 || len(status.Conditions) > 0 || result.RequeueAfter != 0 {
		t.Errorf("its status is %+v, and it is looked at again after %s (%v)", status, result.RequeueAfter, err)
	}
}

// The cache shows no more of a set than that there is one.
func TestASetIsReadAsItIsIfTheMakerWroteIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cached, live func(*podsetv1.StrimziPodSet)
		created      int
	}{
		"it did":                   {created: 1},
		"another did":              {cached: func(s *podsetv1.StrimziPodSet) { s.ManagedFields = nil }},
		"another has since":        {live: func(s *podsetv1.StrimziPodSet) { s.ManagedFields = nil }},
		"it is gone since":         {live: func(s *podsetv1.StrimziPodSet) { s.Name = "another" }},
		"the cache has it no more": {cached: func(s *podsetv1.StrimziPodSet) { s.Name = "another" }},
		"the cache shows no pods":  {cached: func(s *podsetv1.StrimziPodSet) { s.Spec.Pods = nil }, created: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := func(change func(*podsetv1.StrimziPodSet)) *store {
				set := setOf(t, "a")
				if change != nil {
					change(set)
				}
				return newStore(t, set)
			}
			cached, live := stored(c.cached), stored(c.live)
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(setOf(t))}

			if _, err := live.reconciler(cached).Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}

			if cached.created != c.created {
				t.Errorf("%d pods were created, want %d", cached.created, c.created)
			}
		})
	}
}

// A node that was evicted while its set is refused does not come back: somebody has to be
// told why.
func TestASetThatIsRefusedSaysSoThoughThePodThatHasEndedIsStillThere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*podsetv1.StrimziPodSet){
		"of nobody":                func(s *podsetv1.StrimziPodSet) { s.OwnerReferences = nil },
		"whose pods another wrote": func(s *podsetv1.StrimziPodSet) { s.ManagedFields[0].FieldsV1 = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, pod := setOf(t, "a"), podOf("a", inPhase(corev1.PodFailed))
			change(set)
			s := newStore(t, set, &pod)
			var status podsetv1.StrimziPodSetStatus
			s.reported = func(to podsetv1.StrimziPodSetStatus) { status = to }

			for range 2 { // in the first, or once the pod is cleared away
				if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}

			if len(status.Conditions) != 1 {
				t.Errorf("%d pods were deleted and %d created, and its status is %+v", s.deleted, s.created, status)
			}
		})
	}
}
