package kube_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/internal/kube"
)

// counting is an API server that counts what it is asked to apply.
type counting struct {
	client.WithWatch

	calls int
	// refusal is returned instead of applying.
	refusal error
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	c := &counting{}
	c.WithWatch = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, to client.WithWatch, intent runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			c.calls++
			if c.refusal != nil {
				return c.refusal
			}
			return to.Apply(ctx, intent, opts...)
		},
	}).Build()
	return c
}

func configOf(value string) *coreac.ConfigMapApplyConfiguration {
	return coreac.ConfigMap("c", "ns").WithData(map[string]string{"key": value})
}

// version is an object of which nothing is known but its resource version.
func version(v string) metav1.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}}
}

func mustApply(t *testing.T, a *kube.Applier, intent runtime.ApplyConfiguration, observed metav1.Object) kube.Result {
	t.Helper()
	result, err := a.Apply(t.Context(), intent, observed)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestApplyCallsOnlyWhenSomethingMayDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// second is what happens after an Apply that returned the version.
		second func(t *testing.T, a *kube.Applier, version string) kube.Result
		called bool
	}{
		"the intent and the object are the same": {
			second: func(t *testing.T, a *kube.Applier, v string) kube.Result {
				t.Helper()
				return mustApply(t, a, configOf("1"), version(v))
			},
		},
		"the intent has changed": {
			second: func(t *testing.T, a *kube.Applier, v string) kube.Result {
				t.Helper()
				return mustApply(t, a, configOf("2"), version(v))
			},
			called: true,
		},
		"somebody has changed the object": {
			second: func(t *testing.T, a *kube.Applier, v string) kube.Result {
				t.Helper()
				return mustApply(t, a, configOf("1"), version(v+"0"))
			},
			called: true,
		},
		"the object is gone": {
			second: func(t *testing.T, a *kube.Applier, _ string) kube.Result {
				t.Helper()
				return mustApply(t, a, configOf("1"), nil)
			},
			called: true,
		},
		"it was forgotten": {
			second: func(t *testing.T, a *kube.Applier, v string) kube.Result {
				t.Helper()
				a.Forget("v1", "ConfigMap", "ns", "c")
				return mustApply(t, a, configOf("1"), version(v))
			},
			called: true,
		},
		"another object of the same version": {
			second: func(t *testing.T, a *kube.Applier, v string) kube.Result {
				t.Helper()
				return mustApply(t, a, coreac.ConfigMap("other", "ns").WithData(map[string]string{"key": "1"}), version(v))
			},
			called: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newCounting(t)
			a := kube.NewApplier(server, "test")
			first := mustApply(t, a, configOf("1"), nil)
			if !first.Called || first.ResourceVersion == "" {
				t.Fatalf("the first result is %+v, want a call and a version", first)
			}

			second := c.second(t, a, first.ResourceVersion)

			if second.Called != c.called || server.calls > 1 != c.called {
				t.Errorf("called is %t after %d calls, want %t", second.Called, server.calls, c.called)
			}
			if !c.called && second.ResourceVersion != first.ResourceVersion {
				t.Errorf("version %q, want the observed one", second.ResourceVersion)
			}
		})
	}
}

func TestARefusedApplyIsForgottenAndSaysWhatItWas(t *testing.T) {
	t.Parallel()
	server := newCounting(t)
	a := kube.NewApplier(server, "test")
	first := mustApply(t, a, configOf("1"), nil)
	server.refusal = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c", nil)

	_, err := a.Apply(t.Context(), configOf("2"), version(first.ResourceVersion))

	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "ConfigMap ns/c") {
		t.Errorf("error is %v, want a conflict that names the object", err)
	}
	server.refusal = nil
	if again := mustApply(t, a, configOf("1"), version(first.ResourceVersion)); !again.Called {
		t.Error("the object was taken for known after a refusal")
	}
}

func TestAnIntentForAnInstanceThatWasReplacedIsALostRace(t *testing.T) {
	t.Parallel()
	pods := schema.GroupKind{Kind: "Pod"}
	for name, c := range map[string]struct {
		field *field.Path
		lost  bool
	}{
		"the UID is that of another instance": {field.NewPath("metadata", "uid"), true},
		"something else is invalid":           {field.NewPath("spec"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newCounting(t)
			server.refusal = apierrors.NewInvalid(pods, "p", field.ErrorList{field.Invalid(c.field, "x", "field is immutable")})

			_, err := kube.NewApplier(server, "test").Apply(t.Context(), coreac.Pod("p", "ns").WithUID("old"), nil)

			if err == nil || apierrors.IsConflict(err) != c.lost || apierrors.IsInvalid(err) == c.lost {
				t.Errorf("error is %v, want a lost race: %t", err, c.lost)
			}
		})
	}
}

func TestAnIntentIsNotChangedByTheAnswer(t *testing.T) {
	t.Parallel()
	intent := configOf("1")

	mustApply(t, kube.NewApplier(newCounting(t), "test"), intent, nil)

	if intent.UID != nil || intent.ResourceVersion != nil || len(intent.Data) != 1 {
		t.Errorf("the intent is now %+v", intent)
	}
}

func TestDeleteLeavesAnotherInstanceOfTheNameAlone(t *testing.T) {
	t.Parallel()
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "new"}}
	for name, c := range map[string]struct {
		observed string
		uid      types.UID
		stays    bool
		fails    bool
	}{
		"the observed instance goes":           {observed: "p", uid: "new"},
		"a successor stays, and that is named": {observed: "p", uid: "old", stays: true, fails: true},
		"what is gone is no error":             {observed: "gone", uid: "old", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := fake.NewClientBuilder().WithObjects(there.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
					options := client.DeleteOptions{}
					options.ApplyOptions(opts)
					sent := options.Preconditions
					var present corev1.Pod
					if err := to.Get(ctx, client.ObjectKeyFromObject(object), &present); err != nil {
						return err
					}
					if sent != nil && sent.UID != nil && *sent.UID != present.UID {
						return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, object.GetName(), nil)
					}
					return to.Delete(ctx, &present)
				},
			}).Build()
			observed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.observed, Namespace: "ns", UID: c.uid}}

			err := kube.Delete(t.Context(), server, observed)

			if (err != nil) != c.fails || (err != nil && !strings.Contains(err.Error(), "ns/p")) {
				t.Errorf("error is %v, want one: %t", err, c.fails)
			}
			var pod corev1.Pod
			if err := server.Get(t.Context(), client.ObjectKeyFromObject(there), &pod); (err == nil) != c.stays {
				t.Errorf("the pod stays: %t, want %t", err == nil, c.stays)
			}
		})
	}
}
