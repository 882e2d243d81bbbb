package apitest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// queue is what a controller would reconcile.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watch lets the world read Certificates through a Watch.
func (w *world) watch(config *rest.Config, namespaces ...string) (*certmanager.Watch, queue) {
	w.t.Helper()
	definitions, err := metadata.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	live, _ := w.options.Secrets.(certmanager.Live)
	watch := certmanager.NewWatch(certmanager.WatchOptions{
		Live: live, Metadata: definitions, Namespaces: namespaces, Selector: labels.SelectorFromSet(w.options.Selector),
		OwnersOf: func(_ context.Context, certificate client.Object) []reconcile.Request {
			name := certificate.GetLabels()["strimzi.io/cluster"]
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: certificate.GetNamespace(), Name: name}}}
		},
	})
	events := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	w.t.Cleanup(events.ShutDown)
	if err := watch.Start(w.t.Context(), events); err != nil {
		w.t.Fatal(err)
	}
	w.options.Certificates = watch
	return watch, events
}

// cached waits until Certificates are read from the cache.
func (w *world) cached(watch *certmanager.Watch) {
	w.t.Helper()
	w.until("Certificates are cached", func() bool {
		w.traffic.since()
		_, err := watch.Certificates(w.t.Context(), w.namespace, labels.Everything())
		reads, _ := w.traffic.since()
		return err == nil && len(reads) == 0
	})
}

func (w *world) cluster() types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: "my-cluster"}
}

// heard reports whether the cluster is among those that are to be reconciled. Others are of other tests.
func (w *world) heard(events queue) bool {
	found := false
	for events.Len() > 0 {
		event, _ := events.Get()
		events.Done(event)
		found = found || event.NamespacedName == w.cluster()
	}
	return found
}

// hears waits until the cluster is to be reconciled.
func (w *world) hears(what string, events queue) {
	w.t.Helper()
	w.until("the cluster is reconciled: "+what, func() bool { return w.heard(events) })
}

// drain waits until nothing happens to the cluster any more.
func (w *world) drain(events queue) {
	w.t.Helper()
	for w.within(500*time.Millisecond, func() bool { return w.heard(events) }) {
		continue
	}
}

func TestAWatchedCertificateCostsNoRequestAtRest(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]bool{"one namespace is watched": false, "all namespaces are watched": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var namespaces []string
			if !all {
				namespaces = []string{w.namespace}
			}
			watch, events := w.watch(apiServer, namespaces...)
			w.cached(watch)
			w.issued(w.request(node))
			w.drain(events)
			w.traffic.since()

			w.issued(w.request(node))
			if err := w.issuer().Withdraw(t.Context(), []string{node}); err != nil {
				t.Fatal(err)
			}

			reads, writes := w.traffic.since()
			if len(reads) != 2 || len(writes) > 0 {
				t.Errorf("reads %q and writes %q, want one read of the Secret and a list of Secrets", reads, writes)
			}
			w.patch(w.certificate(node), `{"metadata": {"labels": {"strimzi.io/cluster": null}}}`)
			w.hears("its label was removed", events)
			w.until("the label is put back", func() bool { // the event may be an earlier one
				w.ask(w.request(node))
				return w.certificate(node).GetLabels()["strimzi.io/cluster"] == "my-cluster"
			})
		})
	}
}

func TestCertManagerMayBeInstalledAndRemovedWhileTheOperatorRuns(t *testing.T) {
	t.Parallel()
	server := kubetest.Start(t, envtest.CRDInstallOptions{})
	w := newWorldOn(t, server)
	watch, events := w.watch(server)
	watch.Refer(w.cluster())
	w.mentions(w.pending(w.request(node)).Why, "cert-manager is not installed", "certificates.cert-manager.io")
	if err := w.issuer().Withdraw(t.Context(), nil); err != nil {
		t.Errorf("withdrawing without cert-manager: %v", err)
	}
	paths := []string{filepath.Join(definitions(), certmanager.Group+"_certificates.yaml")}
	install := func() {
		t.Helper()
		if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: paths}); err != nil {
			t.Fatal(err)
		}
		w.hears("cert-manager was installed", events)
	}
	install()
	w.mentions(w.pending(w.request(node)).Why, "check that cert-manager runs")
	w.certificate(node)
	w.drain(events)

	w.removeDefinition()
	w.hears("cert-manager was removed", events)
	w.until("it is said that cert-manager is not installed", func() bool {
		return contains(w.pending(w.request(node)).Why, []string{"not installed"})
	})
	w.until("the cache is dropped", func() bool {
		_, err := watch.Certificates(t.Context(), w.namespace, labels.Everything())
		return apierrors.IsNotFound(err)
	})
	w.drain(events)

	install()
	w.until("a Certificate is requested again", func() bool {
		return contains(w.pending(w.request(node)).Why, []string{"check that cert-manager runs"})
	})
	w.certificate(node)
}

// removeDefinition deletes the CustomResourceDefinition of Certificates, and with it all of them.
func (w *world) removeDefinition() {
	w.t.Helper()
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: certmanager.Definition}}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := w.person.Delete(w.t.Context(), definition); err != nil {
		w.t.Fatal(err)
	}
	w.until("the definition is gone", func() bool {
		return apierrors.IsNotFound(w.person.Get(w.t.Context(), types.NamespacedName{Name: certmanager.Definition}, definition))
	})
}

func TestWhoIsForgottenIsNotReconciled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	watch, events := w.watch(apiServer, w.namespace)
	watch.Refer(w.cluster())
	watch.Forget(w.cluster())
	w.drain(events) // what was heard before
	if w.within(time.Second, func() bool { return w.heard(events) }) {
		t.Error("it is reconciled")
	}
}
