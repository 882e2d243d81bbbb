package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/internal/kube"
)

const owner = client.FieldOwner("test")

// recorder is an API server that keeps the patches it was sent.
type recorder struct {
	client.WithWatch

	patches []map[string]any
	created int
}

func newRecorder(t *testing.T, objects ...client.Object) *recorder {
	t.Helper()
	r := &recorder{}
	r.WithWatch = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			r.created++
			return to.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			data, err := patch.Data(object)
			if err != nil {
				return err
			}
			var sent map[string]any
			if err := json.Unmarshal(data, &sent); err != nil {
				return err
			}
			r.patches = append(r.patches, sent)
			return to.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	return r
}

// stored is the Secret that tests begin with, as the API server returns it.
func stored(t *testing.T, r *recorder) *corev1.Secret {
	t.Helper()
	var secret corev1.Secret
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, &secret); err != nil {
		t.Fatal(err)
	}
	return &secret
}

func theOwner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Kafka", Name: "my", UID: "the-kafka"}
}

func theirOwner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Other", Name: "other", UID: "somebody-else"}
}

func present() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "s", UID: "the-secret",
			Labels:          map[string]string{"ours": "1", "theirs": "x"},
			Annotations:     map[string]string{"generation": "0", "theirs": "x"},
			OwnerReferences: []metav1.OwnerReference{theirOwner(), theOwner()},
		},
		Data: map[string][]byte{"ca.crt": []byte("certificate"), "ca.password": []byte("password")},
	}
}

// same is the intent of which nothing differs from present.
func same() kube.SecretIntent {
	return kube.SecretIntent{
		Namespace: "ns", Name: "s",
		Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"},
		RemoveAnnotations: []string{"force-renew"},
		Owners:            []metav1.OwnerReference{theOwner()},
		Data:              map[string][]byte{"ca.crt": []byte("certificate"), "ca.password": []byte("password")},
	}
}

func TestASecretThatIsAsItShallBeIsNotWritten(t *testing.T) {
	t.Parallel()
	r := newRecorder(t, present())
	observed := stored(t, r)

	got, err := kube.WriteSecret(t.Context(), r, owner, observed, same())
	if err != nil {
		t.Fatal(err)
	}

	if len(r.patches)+r.created > 0 {
		t.Errorf("written: %v", r.patches)
	}
	if diff := cmp.Diff(*observed, got); diff != "" {
		t.Errorf("result (-observed +got):\n%s", diff)
	}
}

func TestASecretBecomesWhatIsIntendedInOneWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*corev1.Secret)
		intent func(*kube.SecretIntent)
		after  func(*corev1.Secret)
	}{
		"a value that differs is replaced": {
			intent: func(i *kube.SecretIntent) { i.Data["ca.crt"] = []byte("another") },
			after:  func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("another") },
		},
		"a key that is missing is added": {
			intent: func(i *kube.SecretIntent) { i.Data["ca.p12"] = []byte("store") },
			after:  func(s *corev1.Secret) { s.Data["ca.p12"] = []byte("store") },
		},
		"a key that nobody intends goes": {
			intent: func(i *kube.SecretIntent) { delete(i.Data, "ca.password") },
			after:  func(s *corev1.Secret) { delete(s.Data, "ca.password") },
		},
		"a request goes in the write that serves it": {
			before: func(s *corev1.Secret) { s.Annotations["force-renew"] = "true" },
			intent: func(i *kube.SecretIntent) {
				i.Annotations["generation"], i.Data["ca.crt"] = "1", []byte("renewed")
			},
			after: func(s *corev1.Secret) {
				delete(s.Annotations, "force-renew")
				s.Annotations["generation"], s.Data["ca.crt"] = "1", []byte("renewed")
			},
		},
		"a request that nobody serves stays": {
			before: func(s *corev1.Secret) { s.Annotations["force-renew"] = "true" },
			intent: func(i *kube.SecretIntent) { i.RemoveAnnotations, i.Annotations["generation"] = nil, "1" },
			after:  func(s *corev1.Secret) { s.Annotations["force-renew"], s.Annotations["generation"] = "true", "1" },
		},
		"a label that is to go goes": {
			intent: func(i *kube.SecretIntent) { i.RemoveLabels = []string{"theirs", "nobody's"} },
			after:  func(s *corev1.Secret) { delete(s.Labels, "theirs") },
		},
		"a label that somebody has changed is put back": {
			before: func(s *corev1.Secret) { s.Labels["ours"] = "2" },
			after:  func(s *corev1.Secret) { s.Labels["ours"] = "1" },
		},
		"an owner is added to those that are there": {
			before: func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{theirOwner()} },
			after: func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{theirOwner(), theOwner()}
			},
		},
		"an owner goes and the others stay": {
			intent: func(i *kube.SecretIntent) { i.Owners, i.Unowned = nil, []types.UID{"the-kafka"} },
			after:  func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{theirOwner()} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, want, intent := present(), present(), same()
			if c.before != nil {
				c.before(before)
				c.before(want)
			}
			if c.intent != nil {
				c.intent(&intent)
			}
			c.after(want)
			r := newRecorder(t, before)

			got, err := kube.WriteSecret(t.Context(), r, owner, stored(t, r), intent)
			if err != nil {
				t.Fatal(err)
			}

			if len(r.patches) != 1 {
				t.Errorf("%d writes, want one", len(r.patches))
			}
			after := stored(t, r)
			if diff := cmp.Diff(*after, got); diff != "" {
				t.Errorf("result (-stored +returned):\n%s", diff)
			}
			want.ResourceVersion, want.ManagedFields, want.TypeMeta = after.ResourceVersion, after.ManagedFields, after.TypeMeta
			if diff := cmp.Diff(want, after); diff != "" {
				t.Errorf("Secret (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASecretIsWrittenOnlyFromTheStateItWasObservedIn(t *testing.T) {
	t.Parallel()
	intent := same()
	intent.Data["ca.crt"] = []byte("renewed")
	for name, c := range map[string]struct {
		// meanwhile happens between observing and writing.
		meanwhile func(t *testing.T, r *recorder)
		observed  func(t *testing.T, r *recorder) *corev1.Secret
		conflict  func(error) bool
	}{
		"somebody has written since": {
			observed: stored,
			meanwhile: func(t *testing.T, r *recorder) {
				t.Helper()
				secret := stored(t, r)
				secret.Data["ca.key"] = []byte("theirs")
				if err := r.Update(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
			},
			conflict: apierrors.IsConflict,
		},
		"somebody has made one where none was": {
			observed:  func(*testing.T, *recorder) *corev1.Secret { return nil },
			meanwhile: func(*testing.T, *recorder) {},
			conflict:  apierrors.IsAlreadyExists,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t, present())
			observed := c.observed(t, r)
			c.meanwhile(t, r)
			before := stored(t, r)

			_, err := kube.WriteSecret(t.Context(), r, owner, observed, intent)

			if status := new(apierrors.StatusError); !errors.As(err, &status) || !c.conflict(status) {
				t.Errorf("error is %v, want a lost race", err)
			}
			if diff := cmp.Diff(before, stored(t, r)); diff != "" {
				t.Errorf("the Secret has changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAWriteNamesTheInstanceItIsMeantFor(t *testing.T) {
	t.Parallel()
	r := newRecorder(t, present())
	observed, intent := stored(t, r), same()
	intent.Data["ca.crt"] = []byte("renewed")

	if _, err := kube.WriteSecret(t.Context(), r, owner, observed, intent); err != nil {
		t.Fatal(err)
	}

	metadata, _ := r.patches[0]["metadata"].(map[string]any)
	if metadata["uid"] != "the-secret" || metadata["resourceVersion"] != observed.ResourceVersion {
		t.Errorf("preconditions are %v, want the UID and version that were observed", metadata)
	}
	want := map[string]any{"ca.crt": "cmVuZXdlZA=="}
	if diff := cmp.Diff(want, r.patches[0]["data"]); diff != "" {
		t.Errorf("data of the write (-want +got):\n%s", diff)
	}
}

func TestAMissingSecretIsMadeWithEverything(t *testing.T) {
	t.Parallel()
	r, intent := newRecorder(t), same()

	if _, err := kube.WriteSecret(t.Context(), r, owner, nil, intent); err != nil {
		t.Fatal(err)
	}

	made := stored(t, r)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "s", Labels: intent.Labels, Annotations: intent.Annotations, OwnerReferences: intent.Owners,
			ResourceVersion: made.ResourceVersion, ManagedFields: made.ManagedFields,
		},
		TypeMeta: made.TypeMeta, Type: corev1.SecretTypeOpaque, Data: intent.Data,
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}
