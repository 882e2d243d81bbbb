package apitest

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// writes counts requests that change something, and the others.
type writes struct {
	next   http.RoundTripper
	number atomic.Int64
	reads  atomic.Int64
	// watched are the Secrets that are watched by their names.
	watched sync.Map
}

func (w *writes) RoundTrip(request *http.Request) (*http.Response, error) {
	if query := request.URL.Query(); strings.HasSuffix(request.URL.Path, "/secrets") && query.Has("watch") && query.Get("fieldSelector") != "" {
		w.watched.Store(query.Get("fieldSelector"), true)
	}
	if request.Method != http.MethodGet {
		w.number.Add(1)
	} else {
		w.reads.Add(1)
	}
	return w.next.RoundTrip(request)
}

// runIn starts the etcd operator as its process does, with its cache, its watches and the rights of the chart, until
// the test ends.
func (w *world) runIn(server *rest.Config, counted *writes) {
	w.t.Helper()
	server = rest.CopyConfig(server)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	observer := w.observer
	if observer == nil {
		observer = watches.NewObserver(clock.RealClock{})
	}
	mgr, err := watches.NewManager(server, &ctrl.Options{
		Scheme: w.person.Scheme(), Cache: controller.CacheOptions(w.private, []string{w.namespace}), Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	}, observer)
	if err != nil {
		w.t.Fatal(err)
	}
	runsBy := w.runsBy
	if runsBy == nil {
		runsBy = clock.RealClock{}
	}
	operator := controller.New(controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(1000), Log: logr.Discard(),
		Clock: runsBy, Dial: w.connectTo, Agents: toNoAgent, Namespace: w.private, ReadsPKI: w.readsPKI, GrantsAccess: w.grantsAccess, Metrics: controller.NewMetrics(), Attestor: attested{}, Watches: observer,
		Settings: model.Settings{AgentImage: "keyturn:test", ClusterDomain: "cluster.local", OperatorNamespace: w.private},
	})
	if err := operator.SetupWithManager(mgr); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// eventually plays the pods until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		w.play()
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: not within a minute: %+v", what, w.status())
		case <-ticker.C:
		}
	}
}

var installOnce sync.Once

var installedRights *rest.Config

// installed returns a configuration that acts as the operator that the chart installs.
func installed(t *testing.T) *rest.Config {
	t.Helper()
	installOnce.Do(func() {
		installedRights = chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.EtcdOperator)
	})
	return installedRights
}

func TestTheRunningOperatorBringsUpThreeMembersAndRests(t *testing.T) {
	t.Parallel()
	rights := installed(t)
	w := newWorldIn(t, kubetest.Namespace(t, connect(t, apiServer), "etcd-"), "keyturn", connect(t, rights), of(3))
	w.clock.SetTime(time.Now())
	counted := &writes{}
	w.etcd.Before = nil
	w.runIn(rights, counted)
	isReady := func() bool { return w.condition(etcdv1beta2.ConditionReady).Status == metav1.ConditionTrue }
	w.eventually("the cluster is ready", func() bool { return isReady() && len(w.pods()) == 3 })
	before := counted.number.Load()
	w.annotate(first, "example.com/changed", "yes") // is an event
	w.eventually("a lost Service is created again", w.losesService())
	if after := counted.number.Load() - before; after != 1 {
		t.Errorf("%d writes, want one Service", after)
	}
	lost := w.pod("my-cluster-2")
	w.delete(lost.DeepCopy())
	w.eventually("a lost pod is created again", func() bool {
		pods := w.pods()
		return len(pods) == 3 && pods[2].UID != lost.UID && isReady()
	})
	w.change(`{"spec": {"size": 1}}`)
	w.eventually("members are removed with their data", func() bool { return len(w.pods()) == 1 && len(w.claims()) == 1 && isReady() })
	w.delete(w.cluster())
	w.eventually("the cluster is gone", func() bool {
		err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, &etcdv1beta2.EtcdCluster{})
		return apierrors.IsNotFound(err)
	})
}

// Nothing else wakes the operator, whose clock stands still.
func TestARequestOnTheSecretOfACAWakesTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.runsBy, w.etcd.Before = w.clock, nil
	w.runIn(apiServer, &writes{})
	w.eventually("a lost Service is created again", w.losesService())
	w.eventually("the request is taken", w.asksToRenew())
}

// asksToRenew asks for another certificate of the client CA and reports whether the request was taken.
func (w *world) asksToRenew() func() bool {
	w.t.Helper()
	asked := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.private, Name: w.clusterNames().CACertSecret(contract.ClientPlane)}}
	if err := w.person.Patch(w.t.Context(), asked, annotating(domains.ForceRenewAnnotation, "true")); err != nil {
		w.t.Fatal(err)
	}
	return func() bool {
		if err := w.person.Get(w.t.Context(), client.ObjectKeyFromObject(asked), asked); err != nil {
			w.t.Fatal(err)
		}
		return asked.Annotations[domains.ForceRenewAnnotation] == ""
	}
}

// losesService deletes the Service for clients and reports whether it is there again.
func (w *world) losesService() func() bool {
	w.t.Helper()
	w.delete(&corev1.Service{ObjectMeta: w.meta("my-cluster-client")})
	return func() bool {
		err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "my-cluster-client"}, &corev1.Service{})
		return err == nil
	}
}
