package apitest

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/kube"
)

func TestMembersAreRepairedWithoutDNS(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]etcdv1beta2.EtcdClusterSpec{"dynamic": of(3), "insecure": insecure(3)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, spec)
			w.withoutDNS = true
			w.bring()
			before := w.ids()
			w.delete(w.pod(second))
			w.deleteClaim(second)
			w.play()
			w.bringSafely()
			if after := w.ids(); after[first] != before[first] || after[second] == before[second] || len(after) != 3 {
				t.Errorf("members were %v and are %v", before, after)
			}
			w.atRest()
		})
	}
}

// Each connection to a member is for its name alone: the address may be another pod's by now.
func TestAMemberIsAskedByTheAddressOfItsPodForItsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	asked := map[string]string{}
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		asked[identity.ServerName] = strings.Join(urls, ",")
		return w.etcd.Dial(ctx, urls, identity)
	}
	w.bring()
	for _, name := range []string{first, second, third} {
		host := fmt.Sprintf("%s.my-cluster-peer.%s.svc", name, w.namespace)
		if asked[host] != "https://"+host+":2379" {
			t.Errorf("for the name %s the members at %q are asked", host, asked[host])
		}
	}
}

func TestWhyEtcdDoesNotAnswerIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cause error
		says  string
	}{
		{fmt.Errorf("%w: dial tcp 10.0.0.1:2379: i/o timeout", admin.ErrNoConnection), "Member my-cluster-0: its pod accepts no connection."},
		{admin.ErrUntrusted, "its certificate is not accepted"},
		{admin.ErrRejected, "it rejects the certificate of the operator"},
		{nil, "etcd does not answer. It may have no leader"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(3))
			w.bring()
			w.unreached = test.cause
			w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) { return silent{w.etcd}, nil }
			w.change(`{"spec": {"size": 5}}`)
			if message := w.until("EtcdNotAnswering"); !strings.Contains(message, test.says) || strings.Contains(message, "timeout") {
				t.Errorf("the message is %q", message)
			}
		})
	}
}

// silent is a member that does not answer.
type silent struct{ *admintest.Fake }

func (silent) Members(context.Context) ([]admin.Member, error) {
	return nil, admintest.ErrUnreachable
}

func TestAPodThatIsNotReadyBecauseItsNameDoesNotResolveIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.withoutDNS = true
	pod := w.pod(second)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon())}}
	if err := w.kubelet.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if after := w.reconcile().RequeueAfter; after != 30*time.Second || strings.Contains(w.condition(etcdv1beta2.ConditionReady).Message, "DNS") {
		t.Errorf("the name of a pod that has just started is looked up, or not in 30 s but in %s", after)
	}
	w.clock.SetTime(noon().Add(31 * time.Second))
	if after := w.reconcile().RequeueAfter; after != kube.Unwatched {
		t.Errorf("the name is looked up again in %s", after)
	}
	message := w.condition(etcdv1beta2.ConditionReady).Message
	if !strings.Contains(message, "Pods my-cluster-1 are not ready") || !strings.Contains(message, "Member my-cluster-1: its DNS name does not exist. See the DNS of the Kubernetes cluster.") {
		t.Errorf("the message is %q", message)
	}
	w.withoutDNS = false
	w.clock.SetTime(noon().Add(time.Minute + time.Second))
	w.reconcile()
	if message := w.condition(etcdv1beta2.ConditionReady).Message; strings.Contains(message, "DNS") {
		t.Errorf("the name resolves, and the message is %q", message)
	}
}
