package apitest

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// fail says of pods that they have failed.
func (w *world) fail(names ...string) {
	w.t.Helper()
	for _, name := range names {
		patch := merge(`{"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}`)
		if err := w.person.Status().Patch(w.t.Context(), w.pod(name), patch); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) podUIDs() map[string]types.UID {
	w.t.Helper()
	uids := map[string]types.UID{}
	pods := w.pods()
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			uids[pods[i].Name] = pods[i].UID
		}
	}
	return uids
}

// addressed is an etcd whose members are reached at the addresses of their pods, and not at their names.
type addressed struct {
	*admintest.Fake

	pods  func() []corev1.Pod
	names model.Names
}

func (a *addressed) Status(ctx context.Context, url string) (admin.Status, error) {
	pods := a.pods()
	for i := range pods {
		if url == a.names.ClientURLAt(pods[i].Status.PodIP) {
			return a.Fake.Status(ctx, a.names.ClientURL(pods[i].Name))
		}
	}
	return admin.Status{}, admintest.ErrUnreachable
}

func TestAPodInWhichEtcdAnswersStaysWhateverItsStatusSays(t *testing.T) {
	t.Parallel()
	for _, ephemeral := range []bool{true, false} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("ephemeral %t named %t", ephemeral, named), func(t *testing.T) {
				t.Parallel()
				spec := of(3)
				spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: ephemeral}
				w := newWorld(t, spec)
				w.bring()
				before := w.podUIDs()
				if !named {
					w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
						return &addressed{w.etcd, w.pods, model.Names{Namespace: w.namespace, Cluster: cluster}}, nil
					}
				}
				w.fail(first, second, third)
				for range 8 {
					if w.reconcile().RequeueAfter == 0 {
						t.Error("the pods are not looked at again")
					}
				}
				for name, uid := range w.podUIDs() {
					if before[name] != uid {
						t.Errorf("pod %s is replaced", name)
					}
				}
				if len(w.podUIDs()) != 3 {
					t.Errorf("of three pods %v are left", w.podUIDs())
				}
			})
		}
	}
}

func TestPodsThatHaveAllEndedComeBackWithTheirData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before, ids, claims := w.podUIDs(), w.ids(), w.claimUIDs()
	w.fail(first, second, third)
	w.play() // stops etcd in them
	w.bring()
	for name, uid := range w.podUIDs() {
		if before[name] == uid || w.ids()[name] != ids[name] {
			t.Errorf("member %s was %s and is %s, its pod %s", name, ids[name], w.ids()[name], uid)
		}
	}
	w.keepsClaims(claims)
	w.atRest()
}

func TestEphemeralPodsThatHaveAllEndedStay(t *testing.T) {
	t.Parallel()
	spec := of(3)
	spec.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
	w := newWorld(t, spec)
	w.bring()
	before := w.podUIDs()
	w.fail(first, second, third)
	w.play()
	if message := w.until("QuorumLost"); !strings.Contains(message, "nothing is deleted") {
		t.Errorf("the message is %q", message)
	}
	for name, uid := range before {
		if w.podUIDs()[name] != uid {
			t.Errorf("pod %s is deleted", name)
		}
	}
}
