package apitest

import (
	"crypto/x509"
	"flag"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

func of(size int32) etcdv1beta2.EtcdClusterSpec { return etcdv1beta2.EtcdClusterSpec{Size: size} }

func TestOneMemberComesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	status := w.status()
	pod := w.pod("my-cluster-0")
	want := etcdv1beta2.MemberStatus{Name: "my-cluster-0", PodUID: pod.UID, MemberID: "1", Role: etcdv1beta2.RoleVoter, Version: "3.6.16", Ready: true}
	switch {
	case status.Phase != etcdv1beta2.PhaseRunning || status.Size != 1 || status.CurrentVersion != "3.6.16" || status.TargetVersion != "":
		t.Errorf("the status is %+v", status)
	case status.ServiceName != "my-cluster-client" || status.ClientPort != 2379:
		t.Errorf("clients are sent to %s:%d", status.ServiceName, status.ClientPort)
	case len(status.MemberStatuses) != 1 || !reflect.DeepEqual(status.MemberStatuses[0], want):
		t.Errorf("the members are %+v, want %+v", status.MemberStatuses, want)
	case w.condition(etcdv1beta2.ConditionAvailable).Status != metav1.ConditionTrue:
		t.Errorf("the conditions are %+v", status.Conditions)
	}
	if !w.told("MembersReady") {
		t.Error("no event says that the cluster is ready")
	}
	w.atRest()
}

func TestThreeMembersJoinOneAfterAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	pods := w.pods()
	if len(pods) != 3 {
		t.Fatalf("there are %d pods, want 3", len(pods))
	}
	for _, pod := range pods {
		start, role := w.startOf(&pod), pod.Labels[model.RoleLabel]
		if !start.HasJoined || !slices.Equal(start.Names(), []string{pod.Name}) || role != "voter" {
			t.Errorf("pod %s starts as %+v and is %q for clients, want one that has joined and voter", pod.Name, start, role)
		}
	}
	members, err := w.etcd.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		if member.IsLearner || member.Name == "" {
			t.Errorf("member %+v is no voter", member)
		}
	}
	w.atRest()
}

func TestCertificatesAreOfTheMemberAndItsPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	pod := w.pod("my-cluster-0")
	for _, plane := range contract.Planes() {
		chain := w.chain(pod, plane)
		ca, err := pki.FirstCertificate(w.secret(w.private, w.namespace+".my-cluster-"+string(plane)+"-ca-cert").Data["ca.crt"])
		if err != nil {
			t.Fatal(err)
		}
		if !pki.IssuedBy(chain[0], ca) || chain[0].Subject.String() != "CN=my-cluster-0" || ca.MaxPathLen != pki.MaxCrosses {
			t.Errorf("plane %s: the certificate is of %s by %s with path length %d", plane, chain[0].Subject, chain[0].Issuer, ca.MaxPathLen)
		}
		if host := "my-cluster-0.my-cluster-peer." + w.namespace + ".svc"; chain[0].VerifyHostname(host) != nil || chain[0].VerifyHostname("10.0.0.1") != nil {
			t.Errorf("plane %s: the names are %v %v", plane, chain[0].DNSNames, chain[0].IPAddresses)
		}
		if err := pki.Verify(chain, []*x509.Certificate{ca}, noon(), pki.ClientAuth); (err == nil) != (plane == contract.PeerPlane) {
			t.Errorf("plane %s: as a client: %v", plane, err)
		}
	}
	secret := w.secret(w.namespace, "my-cluster-0")
	keys := slices.Sorted(maps.Keys(secret.Data))
	if !slices.Equal(keys, []string{"client-ca.crt", "peer-ca.crt", "publication.json"}) {
		t.Errorf("the Secret of the member holds %v", keys)
	}
}

func TestTheOperatorIsAClientByTheCAOfTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	data := w.secret(w.private, w.namespace+".my-cluster-operator").Data
	leaf, err := pki.FirstCertificate(data["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.FirstCertificate(data["ca.crt"])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.String() != "CN=cluster-operator,O=keyturn.dev" || !pki.IssuedBy(leaf, ca) {
		t.Errorf("the operator is %s by %s", leaf.Subject, leaf.Issuer)
	}
}

func TestADeletedClusterTakesItsCAsWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.finalize(`["example.com/runs"]`)
	if err := w.person.Delete(t.Context(), &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)}); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.reconcile()
	w.secret(w.private, w.namespace+".my-cluster-peer-ca") // while the pod terminates
	w.finalize("null")
	w.reconcile()
	var secrets corev1.SecretList
	if err := w.person.List(t.Context(), &secrets, client.InNamespace(w.private)); err != nil {
		t.Fatal(err)
	}
	for _, left := range secrets.Items {
		if !strings.HasPrefix(left.Name, "keyturn-etcd-operator-") {
			t.Errorf("Secret %s is left in the operator's namespace", left.Name)
		}
	}
	if len(w.ledger()) > 0 {
		t.Error("the ledger is left in the operator's namespace")
	}
	err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, &etcdv1beta2.EtcdCluster{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the cluster: %v, want that it is gone", err)
	}
	w.reconcile()
}

// allWrites is more than a cluster of three members takes from its creation on.
const allWrites = 84

var wide = flag.Bool("wide", false, "crash before every write instead of one in ten")

// crashes are the writes before which an operator crashes, from the first on in steps: of these one half each time, or all
// writes. The last is always among them, because it is to be more than there are.
func crashes(first, step, most int) []int {
	at, by := 1, 1
	if !*wide {
		at, by = first+step*rand.IntN(2), 2*step
	}
	var crashes []int
	for ; at < most; at += by {
		crashes = append(crashes, at)
	}
	return append(crashes, most)
}

// finalize sets the finalizers of the pod of the first member, which stand for a kubelet that stops it.
func (w *world) finalize(finalizers string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`))
	if err := w.person.Patch(w.t.Context(), &corev1.Pod{ObjectMeta: w.meta("my-cluster-0")}, patch); err != nil {
		w.t.Fatal(err)
	}
}

func TestWhereTheOperatorCrashesTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 4)
	for _, crashAt := range crashes(5, 5, allWrites) {
		t.Run(strconv.Itoa(crashAt), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			w := newWorld(t, of(3))
			w.writer.CrashAt = crashAt
			crashed := false
			for range 40 {
				_, err := w.try()
				if crashed = err != nil; crashed {
					break
				}
				w.play()
			}
			if crashed && crashAt == allWrites {
				t.Errorf("%d writes are not more than it takes", allWrites)
			}
			w.allRecorded()
			w.restart()
			w.bring()
			w.allRecorded()
			if pods, status := w.pods(), w.status(); len(pods) != 3 || len(status.Members.Ready) != 3 {
				t.Errorf("after a crash before write %d there are %d pods, and %v are ready", crashAt, len(pods), status.Members.Ready)
			}
			w.atRest()
		})
	}
}
