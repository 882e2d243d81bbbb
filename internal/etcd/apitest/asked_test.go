package apitest

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// askedFirst comes to where one of three members is asked to start etcd again, before its kubelet shows it that.
func askedFirst(t *testing.T) (w *world, member string) {
	t.Helper()
	w = reporting(t, 3)
	w.asks(w.clusterNames().CAKeySecret(contract.PeerPlane), domains.ForceReplaceAnnotation, "true")
	for range 60 {
		w.play()
		w.poll(time.Second)
		w.reconcile()
		if asked := w.asked(); len(asked) > 0 {
			return w, asked[0]
		}
	}
	t.Fatal("no member is asked to start etcd again")
	return nil, ""
}

// asked are the members that are asked to start etcd again, and have not.
func (w *world) asked() []string {
	var names []string
	pods := w.pods()
	for i := range pods {
		pod := &pods[i]
		if pod.Annotations[contract.RestartAnnotation] != "" && w.agentOf(pod.Name).starts < 2 {
			names = append(names, pod.Name)
		}
	}
	return names
}

// One poll that fails, or an operator that is started, must not have the quorum taken away by two starts side by side.
func TestNoMemberIsStartedAgainBesideOneThatIsAskedAndSilent(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(w *world){
		"a poll fails":            func(*world) {},
		"the operator is started": (*world).restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, member := askedFirst(t)
			w.agentOf(member).silence = errSilent
			happens(w)
			for range 3 {
				w.reconcile()
				w.poll(time.Second)
			}
			if asked := w.asked(); !slices.Equal(asked, []string{member}) {
				t.Fatalf("%v are asked while %s is", asked, member)
			}
			w.agentOf(member).silence = nil
			w.comesTo("all members have started etcd again", func() bool { return w.rotating() == "" && len(w.asked()) == 0 })
		})
	}
}

// Of two operators that act as the leader at the same time, the first stops between its decision and its write.
func TestNoMemberIsTakenAwayBesideOneThatAnotherOperatorHasDecidedToRestart(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *world){
		"changed CAs": func(w *world) {
			w.asks(w.clusterNames().CAKeySecret(contract.PeerPlane), domains.ForceReplaceAnnotation, "true")
		},
		"changed pods": func(w *world) { w.change(`{"spec": {"pod": {"labels": {"tier": "gold"}}}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := reporting(t, 3)
			begin(w)
			member, write := w.stopped()
			w.etcd.Lead(member)
			w.restart()
			for range 5 {
				w.poll(time.Second)
				_, _ = w.try() // what is deleted is not there to be changed
			}
			write()
			if away := w.away(); !slices.Equal(away, []string{member}) {
				t.Errorf("%v are restarted side by side, want %s alone", away, member)
			}
			w.comesTo("all members are restarted", func() bool { return w.condition("Ready").Status == metav1.ConditionTrue && len(w.away()) == 0 })
		})
	}
}

var errStopped = errors.New("it has stopped")

// stopped has the operator reconcile until it would restart a member, and stop before it writes that. write is that write.
func (w *world) stopped() (member string, write func()) {
	w.t.Helper()
	w.writer.Before = func(to kubetest.Write) error {
		object, isObject := to.Object.(metav1.Object)
		revision := ""
		if isObject {
			revision = object.GetAnnotations()[contract.RestartAnnotation]
		}
		_, isPod := to.Object.(*corev1.Pod)
		switch {
		case to.Verb == "delete" && isPod:
			pod := w.pod(object.GetName())
			write = func() { _ = w.person.Delete(w.t.Context(), pod, client.Preconditions{UID: &pod.UID}) }
		case revision != "":
			write = func() { w.annotate(object.GetName(), contract.RestartAnnotation, revision) }
		default:
			return nil
		}
		member = object.GetName()
		return errStopped
	}
	for range 60 {
		w.play()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.operator.PollAgents(w.t.Context())
		if _, _ = w.try(); member != "" {
			return member, write
		}
	}
	w.t.Fatal("no member is restarted")
	return "", nil
}

// away are the members that are asked to start etcd again, and those without a pod that stays.
func (w *world) away() []string {
	away := w.asked()
	pods := w.pods()
	for _, name := range []string{first, second, third} {
		if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name && pod.DeletionTimestamp.IsZero() && isReady(&pod) }) {
			away = append(away, name)
		}
	}
	return away
}

// A client that may annotate pods can have etcd started again once for each change, and stop no rotation.
func TestAnAskForARevisionThatWasNotPublishedIsNone(t *testing.T) {
	t.Parallel()
	w := reporting(t, 3)
	w.annotate(second, contract.RestartAnnotation, "4611686018427387904")
	w.asks(w.clusterNames().CAKeySecret(contract.PeerPlane), domains.ForceReplaceAnnotation, "true")
	w.comesTo("the peer CA is replaced", func() bool {
		return w.rotating() == "" && w.secret(w.private, w.clusterNames().CAKeySecret(contract.PeerPlane)).Annotations[domains.ForceReplaceAnnotation] == ""
	})
}

func TestAPodIsReplacedWhoseAnnotationsAreAllRemoved(t *testing.T) {
	t.Parallel()
	w := reportingAs(t, sharing(1))
	pod := w.pod(first)
	before := pod.DeepCopy()
	pod.Annotations = nil
	if err := w.person.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.try() // the pod is deleted, and then not there to be changed
	w.bring()
	if now := w.pod(first); now.UID == pod.UID || now.Annotations[keyturnagent.PinAnnotation] == "" {
		t.Errorf("the pod is the same, or does not tell which CAs it accepts: %v", now.Annotations)
	}
}

func TestCertificatesOfEtcdAccessesAreWaitedForByAnOperatorWithoutRightsToThem(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 3)
	leaf := w.clientLeaf(w.namespace)
	w.withoutAccess = true
	w.restart()
	w.asks(w.clusterNames().CAKeySecret(contract.ClientPlane), domains.ForceReplaceAnnotation, "true")
	for range 40 {
		w.play()
		w.acceptEachOther()
		w.poll(time.Second)
		w.reconcile()
		for _, name := range []string{first, second, third} {
			if trusted := w.agentOf(name).loaded[contract.ClientPlane]; pki.Verify([]*x509.Certificate{leaf}, trusted, w.clock.Now(), pki.ClientAuth) != nil {
				t.Fatalf("%s no longer accepts a certificate that is valid until %s: %s", name, leaf.NotAfter, w.rotating())
			}
		}
	}
	if says := w.rotating(); !strings.Contains(says, "EtcdAccess in namespace "+w.namespace) {
		t.Errorf("the status does not name what is waited for: %s", says)
	}
}
