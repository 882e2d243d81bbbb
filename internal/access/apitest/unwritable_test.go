package apitest

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// failing is an API server at which one write fails.
type failing struct {
	write string
	err   error
}

func (f failing) send(write kubetest.Write) error {
	if write.String() == f.write {
		return f.err
	}
	return nil
}

// An application that mounts the Secret of the earlier name must live through a rotation, however long the new one cannot
// be written.
func TestTheSecretInUseFollowsARotationWhileTheAPIServerDoesNotWriteTheNextOne(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "renamed", errors.New("exceeded quota"))
	for name, test := range map[string]struct {
		failing failing
		reason  string
	}{
		"a quota":                           {failing: failing{write: "create Secret renamed", err: forbidden}, reason: "Forbidden"},
		"an API server that fails":          {failing: failing{write: "create Secret renamed", err: errors.New("etcdserver: request timed out")}, reason: "ReconciliationFailed"},
		"a right to delete that is missing": {failing: failing{write: "delete Secret my-app", err: forbidden}, reason: "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafkas, w := newWorld(t), newWorld(t)
			kafkas.cluster()
			kafkas.allowAll(w.namespace)
			w.access("my-user", across(kafkas))
			w.mustReconcile()
			before := w.data("my-app")
			w.faulty.Before = test.failing.send
			w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
			fails := func() {
				t.Helper()
				if err := w.reconcile(); err == nil || w.reason("my-app") != test.reason {
					t.Errorf("error %v, and the reason is %s, want one that is retried, and %s", err, w.reason("my-app"), test.reason)
				}
			}
			fails()
			kafkas.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("first", "second"))
			kafkas.updateSecret("my-user", "user.crt", "renewed")
			fails()
			maps.Copy(before, map[string]string{"ssl.truststore.crt": caOf("first", "second"), "ssl.keystore.crt": "renewed"})
			if diff := cmp.Diff(before, w.data("my-app")); diff != "" {
				t.Errorf("the Secret in use differs (-want +got):\n%s", diff)
			}
			if status := w.status(); status.Binding == nil || status.Binding.Name != "my-app" {
				t.Errorf("the binding is %v", status.Binding)
			}
			fails() // the answer of the API server names the version of the Secret
			w.faulty.Written = 0
			fails()
			if w.faulty.Written != 0 {
				t.Errorf("the operator writes %d times although nothing has changed", w.faulty.Written)
			}
			if test.failing.write == "delete Secret my-app" {
				w.faulty.Before = nil
			}
			kafkas.allowAll("")
			w.mustReconcile()
			if reason := w.reason("my-app"); reason != "NamespaceNotAllowed" || w.data("my-app") != nil {
				t.Errorf("consent is withdrawn, the reason is %s, and the Secret holds %v", reason, w.data("my-app"))
			}
		})
	}
}

func TestARenameGoesOnWhenTheAPIServerAllowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	w.mustReconcile()
	w.faulty.Before = failing{write: "create Secret renamed", err: errors.New("etcdserver: request timed out")}.send
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
	if err := w.reconcile(); err == nil {
		t.Error("a failure is not retried")
	}
	w.faulty.Before = nil
	w.mustReconcile()
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "my-app"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the previous Secret: %v, want it deleted", err)
	}
	if diff := cmp.Diff(bound(), w.data("renamed")); diff != "" || w.reason("my-app") != "Bound" {
		t.Errorf("%s, and the Secret differs (-want +got):\n%s", w.reason("my-app"), diff)
	}
}
