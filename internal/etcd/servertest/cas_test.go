package servertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/pki"
)

func (w *world) privateSecret(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.private, Name: name}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// ca is the CA of a plane, which signs.
func (w *world) ca(plane contract.Plane) pki.Authority {
	w.t.Helper()
	cert, key := w.privateSecret(w.names.CACertSecret(plane)), w.privateSecret(w.names.CAKeySecret(plane))
	ca, err := authority.Signer(cert.Data[authority.CertKey], key.Data, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return ca
}

// ask annotates a Secret as a person does.
func (w *world) ask(secret, annotation, value string) {
	w.t.Helper()
	stored := w.privateSecret(secret)
	before := stored.DeepCopy()
	if stored.Annotations == nil {
		stored.Annotations = map[string]string{}
	}
	stored.Annotations[annotation] = value
	if err := w.api.Patch(w.t.Context(), stored, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// trustAlone reports whether all members have loaded one CA in each plane, and whether that is another than before.
func (w *world) trustAlone(ctx context.Context, size int, before map[contract.Plane]pki.Authority) bool {
	loaded := 0
	for _, member := range w.status(ctx).MemberStatuses {
		for _, plane := range member.Loaded {
			former := pki.FingerprintOf(before[contract.Plane(plane.Plane)].Certificate()).String()
			if len(plane.Trusts) == 1 && plane.Trusts[0] != former {
				loaded++
			}
		}
	}
	return loaded == size*len(contract.Planes())
}

// starts counts how often each pod has started etcd.
func (w *world) starts() map[string]int {
	starts := map[string]int{}
	for line := range strings.Lines(w.log.String()) {
		if _, pod, is := strings.Cut(line, `"pod":"`); is && strings.Contains(line, `"msg":"Starting etcd"`) {
			name, _, _ := strings.Cut(pod, `"`)
			starts[name]++
		}
	}
	return starts
}

// writer writes without a pause until it is ended. A write that fails is tried again for as long as an election may take.
type writer struct {
	acknowledged, failed atomic.Int64
	longest              atomic.Int64
	end                  func()
}

const patience = 15 * time.Second

func (w *world) write(size int) *writer {
	w.t.Helper()
	load := &writer{}
	ctx, cancel := context.WithCancel(w.t.Context())
	var loops sync.WaitGroup
	load.end = func() { cancel(); loops.Wait() }
	for i := range size {
		loops.Go(func() { w.writeTo(ctx, load, w.names.Member(i)) })
	}
	return load
}

// writeTo writes by one member first, and by the others while that is down.
func (w *world) writeTo(ctx context.Context, load *writer, member string) {
	for number := 0; ctx.Err() == nil; number++ {
		began := time.Now()
		err := w.putOnce(ctx, member, number)
		for err != nil && ctx.Err() == nil && time.Since(began) < patience {
			err = w.putOnce(ctx, member, number)
		}
		switch took := time.Since(began); {
		case ctx.Err() != nil:
		case err != nil:
			load.failed.Add(1)
			_, _ = fmt.Fprintln(w.log, "a write failed:", err)
		default:
			load.acknowledged.Add(1)
			load.longest.Store(max(load.longest.Load(), int64(took)))
		}
	}
}

// putOnce writes one value over a connection of its own, so that each of them is a handshake.
func (w *world) putOnce(ctx context.Context, member string, number int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	etcd, err := w.client(ctx, member)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	_, err = clientv3.NewKV(etcd).Put(ctx, "key-"+member, fmt.Sprint(number))
	return err
}

// accepts reports whether a member accepts a certificate of a CA on the port of a plane.
func (w *world) accepts(member string, plane contract.Plane, ca pki.Authority) bool {
	w.t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		w.t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{Subject: pki.Subject{CommonName: "stranger"}, Usages: pki.BothUsages(), Validity: time.Hour, Now: time.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	connection, err := (&tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true,                                           // only what the member accepts is of interest, and what it presents is tested elsewhere
		MinVersion:         tls.VersionTLS12, MaxVersion: tls.VersionTLS12, // the handshake ends with the verdict
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}},
	}}).DialContext(w.t.Context(), "tcp", w.member(member).ports[plane])
	if err != nil {
		return false
	}
	return connection.Close() == nil
}

func (w *world) present() map[contract.Plane]pki.Authority {
	w.t.Helper()
	cas := map[contract.Plane]pki.Authority{}
	for _, plane := range contract.Planes() {
		cas[plane] = w.ca(plane)
	}
	return cas
}

// wantStarts fails the test unless each pod is the one that it was, and has started etcd so often.
func (w *world) wantStarts(size, want int) {
	w.t.Helper()
	for i := range size {
		if got := w.starts()[w.names.Member(i)]; got != want {
			w.t.Errorf("member %d was started %d times, want %d", i, got, want)
		}
	}
}

func TestBothCAsAreReplacedUnderLoadWithOneRestartOfEachMember(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	for _, home := range filepath.SplitList(os.Getenv(etcdHomes)) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			const size = 3
			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: size, Pod: &etcdv1beta2.PodPolicy{Ephemeral: true}})
			w.until("ready", w.isReady)
			w.until("all members have reported", func(ctx context.Context) bool { return w.allReported(ctx, size) })
			before, pods, load := w.present(), w.podUIDs(), w.write(size)
			for _, plane := range contract.Planes() {
				w.ask(w.names.CAKeySecret(plane), domains.ForceReplaceAnnotation, "true")
			}
			w.until("members trust the new CAs alone", func(ctx context.Context) bool { return w.trustAlone(ctx, size, before) })
			w.until("ready again", w.isReady)
			load.end()
			if failed := load.failed.Load(); failed > 0 || load.acknowledged.Load() == 0 {
				t.Errorf("%d writes failed and %d were acknowledged; the log:\n%s", failed, load.acknowledged.Load(), w.log)
			}
			t.Logf("%d writes, the longest took %s", load.acknowledged.Load(), time.Duration(load.longest.Load()))
			w.wantStarts(size, 2)
			if after := w.podUIDs(); !slices.Equal(pods, after) {
				t.Errorf("pods were replaced: %v, then %v", pods, after)
			}
			w.refuseEverywhere(size, before)
		})
	}
}

// refuseEverywhere fails the test unless members refuse certificates of former CAs, and accept those of the present ones.
func (w *world) refuseEverywhere(size int, former map[contract.Plane]pki.Authority) {
	w.t.Helper()
	present := w.present()
	for i := range size {
		member := w.names.Member(i)
		for _, plane := range contract.Planes() {
			if w.accepts(member, plane, former[plane]) || !w.accepts(member, plane, present[plane]) {
				w.t.Errorf("member %s accepts a certificate of the former %s CA, or none of the present one", member, plane)
			}
		}
	}
	for _, plane := range contract.Planes() {
		anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: w.privateSecret(w.names.TrustedCertsSecret(plane)).Data})
		if len(anchors) != 1 || !anchors[0].Certificate.Equal(present[plane].Certificate()) || !isBelow(present[plane].Certificate(), former[plane].Certificate()) {
			w.t.Errorf("%d CAs of the %s plane are trusted, or the present one is not below the CA of the operator", len(anchors), plane)
		}
	}
}

// isBelow reports whether two CAs have the same issuer, and names are restricted alike.
func isBelow(ca, former *x509.Certificate) bool {
	return ca.Issuer.String() == former.Issuer.String() && slices.Equal(ca.PermittedDNSDomains, former.PermittedDNSDomains)
}

// podUIDs are those of all pods, in the order of their names.
func (w *world) podUIDs() []types.UID {
	w.t.Helper()
	pods := &corev1.PodList{}
	if err := w.api.List(w.t.Context(), pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	uids := make([]types.UID, 0, len(pods.Items))
	for i := range pods.Items {
		uids = append(uids, pods.Items[i].UID)
	}
	return uids
}
