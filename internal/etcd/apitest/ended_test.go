package apitest

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
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
				w.withoutDNS = !named
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
