package members

import (
	"crypto/x509"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plain "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

const member = "my-cluster-0"

// world is a member that reports, with its CA of each plane and what these have issued to it.
type world struct {
	cas, leaves map[contract.Plane]*x509.Certificate
	pod         *corev1.Pod
	secret      *corev1.Secret
	cluster     *etcdv1beta2.EtcdCluster
}

func newWorld(t *testing.T) *world {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "etcd", Name: member, UID: "uid", Annotations: map[string]string{contract.RestartAnnotation: "3"}}
	w := &world{
		cas: map[contract.Plane]*x509.Certificate{}, leaves: map[contract.Plane]*x509.Certificate{},
		pod: &corev1.Pod{ObjectMeta: meta}, secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: member}, Data: map[string][]byte{}},
		cluster: &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: "my-cluster"}},
	}
	w.pod.Labels = map[string]string{model.ClusterLabel: "my-cluster", model.RoleLabel: string(etcdv1beta2.RoleVoter)}
	reported := etcdv1beta2.MemberStatus{Name: member, PodUID: "uid"}
	for _, plane := range contract.Planes() {
		ca, leaf := issued(t, string(plane))
		w.cas[plane], w.leaves[plane] = ca, leaf
		w.pod.Annotations[plane.RequestAnnotation()] = "request"
		w.pod.Annotations[plane.CertificateAnnotation()] = base64.StdEncoding.EncodeToString(pki.EncodeBundle(leaf))
		w.secret.Data[plane.AnchorsKey()] = pki.EncodeBundle(ca)
		reported.Loaded = append(reported.Loaded, etcdv1beta2.LoadedPlane{
			Plane: string(plane), Presents: pki.FingerprintOf(leaf).String(), Trusts: []string{pki.FingerprintOf(ca).String()},
		})
	}
	w.cluster.Status.MemberStatuses = []etcdv1beta2.MemberStatus{reported}
	return w
}

func issued(t *testing.T, name string) (ca, leaf *x509.Certificate) {
	t.Helper()
	authority, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: name + "-ca"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err = authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: member}, Usages: pki.BothUsages(), Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return authority.Certificate(), leaf
}

// look is what is seen of the member when the objects can be read.
func (w *world) look(t *testing.T, readable ...client.Object) ([]reach.Node, observe.Evidence, error) {
	t.Helper()
	voters, err := Follow(t.Context(), plain.NewClientset(w.pod), &rest.Config{}, model.Names{Namespace: "etcd", Cluster: "my-cluster"})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := etcdv1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(readable...).Build()
	nodes := voters.nodes()
	evidence, err := (&reports{members: voters, api: api, cas: map[string]string{}}).of(t.Context(), nodes[0])
	return nodes, evidence, err
}

func TestWhatAMemberReportsIsNamedByItsCAs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes, evidence, err := w.look(t, w.cluster, w.secret)
	if err != nil {
		t.Fatal(err)
	}
	if nodes[0].Name != member || nodes[0].Restart != "3" {
		t.Errorf("the member is seen as %+v", nodes[0])
	}
	peer := observe.AuthorityName(w.cas[contract.PeerPlane])
	want := observe.Evidence{
		Trusts:  map[string][]string{"peers": {peer}, "clients": {observe.AuthorityName(w.cas[contract.ClientPlane])}},
		Issuers: map[string][]string{"peers": {peer}},
	}
	if diff := cmp.Diff(want, evidence); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotKnownOfAMemberIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*world) []client.Object
		evidence func(*world) observe.Evidence
	}{
		"the status cannot be read": {
			func(*world) []client.Object { return nil },
			func(*world) observe.Evidence { return observe.Evidence{} },
		},
		"the status is of an earlier pod": {
			func(w *world) []client.Object {
				w.cluster.Status.MemberStatuses[0].PodUID = "earlier"
				return []client.Object{w.cluster, w.secret}
			},
			func(*world) observe.Evidence { return observe.Evidence{} },
		},
		"the member reports nothing": {
			func(w *world) []client.Object {
				w.cluster.Status.MemberStatuses[0].Loaded = nil
				return []client.Object{w.cluster, w.secret}
			},
			func(*world) observe.Evidence {
				return observe.Evidence{Trusts: map[string][]string{}, Issuers: map[string][]string{}}
			},
		},
		"neither CAs nor certificates can be read": {
			func(w *world) []client.Object {
				w.pod.Annotations = nil
				return []client.Object{w.cluster}
			},
			func(w *world) observe.Evidence {
				trusts := map[string][]string{}
				for plane, ca := range w.cas {
					trusts[string(plane)+"s"] = []string{pki.FingerprintOf(ca).String()}
				}
				return observe.Evidence{Trusts: trusts, Issuers: map[string][]string{}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, evidence, _ := w.look(t, test.change(w)...)
			if diff := cmp.Diff(test.evidence(w), evidence); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
		})
	}
}
