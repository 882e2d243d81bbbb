package servertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

func pool(bundle []byte) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return roots
}

func TestClusterIsCreatedServesAndKeepsItsKeys(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	for _, home := range filepath.SplitList(os.Getenv(etcdHomes)) {
		for _, size := range []int32{1, 3} {
			t.Run(fmt.Sprintf("%s with %d members", filepath.Base(home), size), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: size, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}})
				w.until("ready", w.isReady)
				w.allVote(int(size))
				w.serves(int(size))
				w.reportsLoaded(int(size))
				w.keepsKeys(w.names.Member(int(size) - 1))
				w.serves(int(size))
			})
		}
	}
}

func (w *world) isReady(ctx context.Context) bool {
	return apimeta.IsStatusConditionTrue(w.status(ctx).Conditions, etcdv1beta2.ConditionReady)
}

// reportsLoaded compares what the status says that members have loaded with what they present on their ports.
func (w *world) reportsLoaded(size int) {
	w.t.Helper()
	w.until("all members have reported", func(ctx context.Context) bool {
		return w.allReported(ctx, size)
	})
	for _, member := range w.status(w.t.Context()).MemberStatuses {
		for _, loaded := range member.Loaded {
			address := w.member(member.Name).ports[contract.Plane(loaded.Plane)]
			// Only what is presented is of interest, and by which CA it is verified is tested elsewhere.
			connection, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(w.t.Context(), "tcp", address)
			if err != nil {
				w.t.Fatal(err)
			}
			leaf := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
			_ = connection.Close()
			if pki.FingerprintOf(leaf).String() != loaded.Presents || !loaded.NotAfter.Time.Equal(leaf.NotAfter) || len(loaded.Trusts) != 1 {
				w.t.Errorf("member %s presents %s, and is said to have loaded %+v", member.Name, pki.FingerprintOf(leaf), loaded)
			}
		}
	}
}

// allReported asks for each member, as what is stored of the condition counts until one that has just joined has reported.
func (w *world) allReported(ctx context.Context, size int) bool {
	status := w.status(ctx)
	loaded := 0
	for _, member := range status.MemberStatuses {
		loaded += len(member.Loaded)
	}
	return apimeta.IsStatusConditionTrue(status.Conditions, etcdv1beta2.ConditionCertificatesLoaded) && loaded == size*len(contract.Planes())
}

// keepsKeys ends the container of a member: another one in the same pod serves with the
// same keys and certificates, and asks for nothing.
func (w *world) keepsKeys(member string) {
	w.t.Helper()
	before := w.annotations(member)
	w.stop(member)
	w.until("not ready without the member", func(ctx context.Context) bool { return !w.isReady(ctx) })
	w.resume(member)
	w.until("ready again", w.isReady)
	if diff := cmp.Diff(before, w.annotations(member)); diff != "" {
		w.t.Errorf("annotations of the pod (-before +after):\n%s", diff)
	}
}

func (w *world) annotations(member string) map[string]string {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: member}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod.Annotations
}

func (w *world) allVote(size int) {
	w.t.Helper()
	status := w.status(w.t.Context())
	for _, member := range status.MemberStatuses {
		if member.Role != etcdv1beta2.RoleVoter || !member.Ready {
			w.t.Errorf("member %+v, want a voter that is ready", member)
		}
	}
	if len(status.MemberStatuses) != size {
		w.t.Errorf("%d members, want %d", len(status.MemberStatuses), size)
	}
}

// serves writes by each member and reads by each.
func (w *world) serves(size int) {
	w.t.Helper()
	var names []string
	for ordinal := range size {
		names = append(names, w.names.Member(ordinal))
	}
	for _, name := range names {
		client, err := w.client(w.t.Context(), name)
		if err == nil {
			_, err = client.Put(w.t.Context(), name, name)
			_ = client.Close()
		}
		if err != nil {
			w.t.Fatalf("member %s: %v", name, err)
		}
	}
	for _, name := range names {
		client, err := w.client(w.t.Context(), name)
		if err != nil {
			w.t.Fatal(err)
		}
		response, err := client.MemberList(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		var known []string
		for _, member := range response.Members {
			if got, err := client.Get(w.t.Context(), member.Name); err != nil || got.Count != 1 || member.IsLearner {
				w.t.Errorf("member %s: %+v, %v of %+v", name, got, err, member)
			}
			known = append(known, member.Name)
		}
		if slices.Sort(known); !slices.Equal(known, names) {
			w.t.Errorf("etcd has members %v, want %v", known, names)
		}
		_ = client.Close()
	}
}
