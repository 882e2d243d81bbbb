package apitest

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func static(size int32) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.TLS = &etcdv1beta2.TLSPolicy{Static: &etcdv1beta2.StaticTLS{
		Member: etcdv1beta2.MemberSecrets{PeerSecret: "etcd-peer-tls", ServerSecret: "etcd-server-tls"}, OperatorSecret: "etcd-client-tls",
	}}
	return spec
}

func insecure(size int32) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.TLS = &etcdv1beta2.TLSPolicy{Insecure: true}
	return spec
}

// ownPKI is a PKI of the user, with a CA for each use.
type ownPKI struct {
	w                     *world
	peers, servers, users pki.Authority
}

func newOwnPKI(w *world) *ownPKI {
	return &ownPKI{
		w: w, peers: pkitest.CA(w.t, "peers", w.clock.Now()), servers: pkitest.CA(w.t, "servers", w.clock.Now()), users: pkitest.CA(w.t, "users", w.clock.Now()),
	}
}

// secrets are the three Secrets as the documentation of the public operator has them.
func (o *ownPKI) secrets() map[string]map[string][]byte {
	in := "." + o.w.namespace + ".svc"
	members := []string{"*." + cluster + in, "*." + cluster + in + ".cluster.local"}
	return map[string]map[string][]byte{
		"etcd-peer-tls":   o.entries("peer", o.peers, o.peers, pki.BothUsages(), members...),
		"etcd-server-tls": o.entries("server", o.servers, o.users, []pki.Usage{pki.ServerAuth}, append(members, cluster+"-client"+in, "localhost")...),
		"etcd-client-tls": o.entries("etcd-client", o.users, o.servers, []pki.Usage{pki.ClientAuth}),
	}
}

func (o *ownPKI) entries(prefix string, by, trusts pki.Authority, usages []pki.Usage, names ...string) map[string][]byte {
	o.w.t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		o.w.t.Fatal(err)
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		o.w.t.Fatal(err)
	}
	leaf, err := by.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: prefix}, SANs: sans, Usages: usages, Validity: 24 * time.Hour, Now: o.w.clock.Now(),
	})
	if err != nil {
		o.w.t.Fatal(err)
	}
	return map[string][]byte{
		prefix + ".crt": pki.EncodeBundle(leaf), prefix + ".key": key.PEM(), prefix + "-ca.crt": pki.EncodeBundle(trusts.Certificate()),
	}
}

// put writes a Secret of the user.
func (w *world) put(name string, data map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: w.meta(name), Data: data}
	if err := w.person.Update(w.t.Context(), secret); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	} else if err != nil {
		w.create(secret)
	}
}

func (w *world) putAll(secrets map[string]map[string][]byte) {
	w.t.Helper()
	for name, data := range secrets {
		w.put(name, data)
	}
}

// newStatic is a world with a static cluster and its Secrets.
func newStatic(t *testing.T, size int32) (*world, *ownPKI) {
	t.Helper()
	w := newWorld(t, static(size))
	own := newOwnPKI(w)
	w.putAll(own.secrets())
	return w, own
}

func TestMembersRunOnSecretsOfTheUser(t *testing.T) {
	t.Parallel()
	w, _ := newStatic(t, 3)
	w.bringSafely()
	pods := w.pods()
	if len(pods) != 3 {
		t.Fatalf("there are %d pods, want 3", len(pods))
	}
	for i := range pods {
		spec := pods[i].Spec
		if spec.ServiceAccountName == pods[i].Name || *spec.AutomountServiceAccountToken || pods[i].Labels[model.RoleLabel] != "voter" {
			t.Errorf("pod %s has account %q, and role %q", pods[i].Name, spec.ServiceAccountName, pods[i].Labels[model.RoleLabel])
		}
		if url := flagOf(&pods[i], "--initial-advertise-peer-urls"); url != "https://"+pods[i].Name+"."+cluster+"."+w.namespace+".svc:2380" {
			t.Errorf("pod %s is at %s", pods[i].Name, url)
		}
	}
	var own corev1.SecretList
	if err := w.person.List(t.Context(), &own, client.InNamespace(w.private)); err != nil || len(own.Items) > 0 {
		t.Errorf("the operator has made %d Secrets for itself: %v", len(own.Items), err)
	}
	for _, kind := range []string{etcdv1beta2.ConditionPKIReady, etcdv1beta2.ConditionAttestationEnforced, etcdv1beta2.ConditionWarning} {
		if condition := w.condition(kind); condition.Type != "" {
			t.Errorf("the cluster has the condition %+v", condition)
		}
	}
	w.atRest()
}

func TestSecretsThatCannotBeUsedAreNamedBeforeAnyPodIsMade(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(secrets map[string]map[string][]byte, own *ownPKI)
		reason string
		want   []string
	}{
		"no Secret": {
			func(s map[string]map[string][]byte, _ *ownPKI) { delete(s, "etcd-server-tls") },
			"SecretMissing",
			[]string{"Secret etcd-server-tls does not exist", "Create it with the entries server.crt, server.key and server-ca.crt"},
		},
		"no entry": {
			func(s map[string]map[string][]byte, _ *ownPKI) { delete(s["etcd-peer-tls"], "peer-ca.crt") },
			"SecretMissing",
			[]string{"Secret etcd-peer-tls has no entry peer-ca.crt", "Add it"},
		},
		"no certificate": {
			func(s map[string]map[string][]byte, _ *ownPKI) { s["etcd-peer-tls"]["peer.crt"] = []byte("?") },
			"SecretNotUsable",
			[]string{"peer.crt in Secret etcd-peer-tls"},
		},
		"a key in UTF-16": {func(s map[string]map[string][]byte, _ *ownPKI) {
			s["etcd-peer-tls"]["peer.key"] = append([]byte{0xff, 0xfe}, bytes.Join(bytes.Split(s["etcd-peer-tls"]["peer.key"], nil), []byte{0})...)
		}, "SecretNotUsable", []string{"peer.key in Secret etcd-peer-tls", "UTF-16"}},
		"the key of another": {func(s map[string]map[string][]byte, _ *ownPKI) {
			s["etcd-client-tls"]["etcd-client.key"] = s["etcd-peer-tls"]["peer.key"]
		}, "SecretNotUsable", []string{"etcd-client.key in Secret etcd-client-tls", "not the key of the certificate in etcd-client.crt"}},
		"peers of another CA": {func(s map[string]map[string][]byte, own *ownPKI) {
			s["etcd-peer-tls"]["peer-ca.crt"] = pki.EncodeBundle(own.users.Certificate())
		}, "SecretNotUsable", []string{"peer.crt in Secret etcd-peer-tls", "trust peer-ca.crt in Secret etcd-peer-tls"}},
		"an operator of another CA": {func(s map[string]map[string][]byte, own *ownPKI) {
			s["etcd-server-tls"]["server-ca.crt"] = pki.EncodeBundle(own.peers.Certificate())
		}, "SecretNotUsable", []string{"etcd-client.crt in Secret etcd-client-tls", "trust server-ca.crt in Secret etcd-server-tls"}},
		"a server of another CA": {func(s map[string]map[string][]byte, own *ownPKI) {
			s["etcd-client-tls"]["etcd-client-ca.crt"] = pki.EncodeBundle(own.peers.Certificate())
		}, "SecretNotUsable", []string{"server.crt in Secret etcd-server-tls", "trust etcd-client-ca.crt in Secret etcd-client-tls"}},
		"a peer that may not dial": {func(s map[string]map[string][]byte, own *ownPKI) {
			in := "." + own.w.namespace + ".svc"
			s["etcd-peer-tls"] = own.entries("peer", own.peers, own.peers, []pki.Usage{pki.ServerAuth}, "*."+cluster+in, "*."+cluster+in+".cluster.local")
		}, "SecretNotUsable", []string{"peer.crt in Secret etcd-peer-tls"}},
		"no names of a member": {func(s map[string]map[string][]byte, own *ownPKI) {
			host := first + "." + cluster + "." + own.w.namespace + ".svc"
			s["etcd-peer-tls"] = own.entries("peer", own.peers, own.peers, pki.BothUsages(), host, host+".cluster.local")
		}, "SecretNotUsable", []string{"peer.crt in Secret etcd-peer-tls lacks the DNS names my-cluster-1.my-cluster."}},
		"no name of the Service": {func(s map[string]map[string][]byte, own *ownPKI) {
			in := "." + own.w.namespace + ".svc"
			s["etcd-server-tls"] = own.entries("server", own.servers, own.users, []pki.Usage{pki.ServerAuth}, "*."+cluster+in, "*."+cluster+in+".cluster.local")
		}, "SecretNotUsable", []string{"server.crt in Secret etcd-server-tls lacks the DNS names my-cluster-client."}},
		"an expired one": {
			func(_ map[string]map[string][]byte, own *ownPKI) { own.w.clock.SetTime(noon().Add(25 * time.Hour)) },
			"SecretExpired",
			[]string{"peer.crt in Secret etcd-peer-tls expired at 2026-05-02T12:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, static(2))
			own := newOwnPKI(w)
			secrets := own.secrets()
			test.change(secrets, own)
			w.putAll(secrets)
			message := w.until(test.reason)
			for _, want := range test.want {
				if !strings.Contains(message, want) {
					t.Errorf("%q is not in the message: %s", want, message)
				}
			}
			if pods := w.pods(); len(pods) > 0 {
				t.Errorf("there are %d pods", len(pods))
			}
			w.clock.SetTime(noon())
			w.putAll(own.secrets())
			w.bring()
		})
	}
}

func TestExpiredCAsBesideThoseThatAreNeededKeepNoStaticClusterWaiting(t *testing.T) {
	t.Parallel()
	w, own := newStatic(t, 1)
	secrets := own.secrets()
	for name, ca := range map[string]pki.Authority{"peer": own.peers, "server": own.servers} {
		old := pkitest.Changed(t, ca, ca, func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) })
		entries := secrets["etcd-"+name+"-tls"]
		entries[name+".crt"] = slices.Concat(entries[name+".crt"], pki.EncodeBundle(old.Certificate()))
		entries[name+"-ca.crt"] = slices.Concat(pki.EncodeBundle(old.Certificate()), entries[name+"-ca.crt"])
	}
	w.putAll(secrets)
	w.bring()
}

func TestACertificateOfRunningMembersThatExpiresIsReported(t *testing.T) {
	t.Parallel()
	w, own := newStatic(t, 1)
	w.bring()
	before := w.pod(first).UID
	w.clock.SetTime(noon().Add(25 * time.Hour))
	w.until("SecretExpired")
	w.putAll(own.secrets())
	w.bring()
	if w.pod(first).UID != before {
		t.Error("the member was restarted for a certificate of the same CA")
	}
	w.atRest()
}

func TestChangedCAsRestartOneMemberAfterTheOther(t *testing.T) {
	t.Parallel()
	w, own := newStatic(t, 3)
	w.bringSafely()
	before := w.uids()
	next := newOwnPKI(w)
	secrets := own.secrets()
	secrets["etcd-peer-tls"]["peer-ca.crt"] = pki.EncodeBundle(own.peers.Certificate(), next.peers.Certificate())
	w.putAll(secrets)
	moves := w.etcd.Moves()
	for range 60 {
		w.reconcile()
		if len(w.pods()) < 2 {
			t.Fatal("two members are restarted at once")
		}
		w.play()
		if !w.etcd.HasQuorum() {
			t.Fatal("etcd has no quorum")
		}
	}
	w.bringSafely()
	after := w.uids()
	for name, uid := range before {
		if after[name] == uid {
			t.Errorf("member %s still trusts the old CAs alone", name)
		}
	}
	if w.etcd.Moves() == moves {
		t.Error("the leader was restarted as the leader")
	}
	w.atRest()

	own.peers = next.peers
	secrets["etcd-peer-tls"] = own.secrets()["etcd-peer-tls"]
	secrets["etcd-peer-tls"]["peer-ca.crt"] = pki.EncodeBundle(next.peers.Certificate(), own.users.Certificate())
	w.putAll(secrets)
	w.bringSafely()
	if restarted := w.uids(); maps.Equal(restarted, after) {
		t.Error("the old CA is still trusted")
	}
}

func TestACertificateOfACAThatMembersHaveNotLoadedRestartsNone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(own, next *ownPKI){
		"of peers":        func(own, next *ownPKI) { own.peers = next.peers },
		"of the operator": func(own, next *ownPKI) { own.users = next.users },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, own := newStatic(t, 3)
			w.bringSafely()
			before := w.uids()
			change(own, newOwnPKI(w))
			w.putAll(own.secrets())
			message := w.until("CAChangedTooSoon")
			if !strings.Contains(message, "Put the previous") || !maps.Equal(w.uids(), before) {
				t.Errorf("the pods are %v, before %v: %s", w.uids(), before, message)
			}
		})
	}
}

func (w *world) uids() map[string]string {
	w.t.Helper()
	uids := map[string]string{}
	pods := w.pods()
	for i := range pods {
		uids[pods[i].Name] = string(pods[i].UID)
	}
	return uids
}

func TestAnInsecureClusterWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, insecure(3))
	w.bringSafely()
	warning := w.condition(etcdv1beta2.ConditionWarning)
	if warning.Status != metav1.ConditionTrue || warning.Reason != "Insecure" || !strings.Contains(warning.Message, "without TLS") {
		t.Errorf("the warning is %+v", warning)
	}
	pod := w.pod(first)
	for _, flag := range []string{"--listen-peer-urls", "--listen-client-urls", "--advertise-client-urls", "--initial-advertise-peer-urls"} {
		if url := flagOf(pod, flag); !strings.HasPrefix(url, "http://") {
			t.Errorf("%s is %s", flag, url)
		}
	}
	if slices.ContainsFunc(pod.Spec.Containers[0].Command, func(argument string) bool { return strings.Contains(argument, "cert") }) {
		t.Errorf("the command is %v", pod.Spec.Containers[0].Command)
	}
	w.atRest()
}

func TestACrashBetweenAPodAndItsRecordEndsWell(t *testing.T) {
	t.Parallel()
	for crashAt := 1; crashAt < 40; crashAt++ {
		w := newWorld(t, insecure(2))
		w.writer.CrashAt = crashAt
		crashed := false
		for range 40 {
			if _, err := w.try(); err != nil {
				crashed = true
				break
			}
			w.play()
		}
		if !crashed {
			return
		}
		w.play() // etcd runs in what was created last
		w.restart()
		w.bring()
		w.atRest()
	}
}

func TestTheModeOfAClusterDoesNotChange(t *testing.T) {
	t.Parallel()
	const someStatic = `{"member": {"peerSecret": "a", "serverSecret": "b"}, "operatorSecret": "c"}`
	for name, test := range map[string]struct {
		spec  etcdv1beta2.EtcdClusterSpec
		patch string
		want  string
	}{
		"dynamic to static":       {of(1), `{"static": ` + someStatic + `}`, "must stay"},
		"dynamic to insecure":     {of(1), `{"insecure": true}`, "must stay"},
		"static to dynamic":       {static(1), `{"static": null}`, "must stay"},
		"static to insecure":      {static(1), `{"static": null, "insecure": true}`, "must stay"},
		"insecure to dynamic":     {insecure(1), `{"insecure": false}`, "must stay"},
		"insecure and dynamic":    {insecure(1), `{"dynamic": {}}`, "must not be combined"},
		"static without a Secret": {static(1), `{"static": {"operatorSecret": ""}}`, "operatorSecret"},
		"other Secrets":           {static(1), `{"static": ` + someStatic + `}`, ""},
		"dynamic, said by name":   {of(1), `{"dynamic": {}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.spec)
			err := w.tryChange(`{"spec": {"TLS": ` + test.patch + `}}`)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the answer is %v, want %q", err, test.want)
			}
		})
	}
}

// Etcd skips text around PEM blocks, and so do the checks.
func TestSecretsAsOpenSSLWritesThemAreUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, static(1))
	secrets := newOwnPKI(w).secrets()
	for _, entry := range []struct{ secret, name, text string }{
		{"etcd-peer-tls", "peer.crt", "Certificate:\n    Data:\n        Version: 3 (0x2)\n"},
		{"etcd-peer-tls", "peer.key", "Bag Attributes\n    friendlyName: peer\n"},
		{"etcd-server-tls", "server-ca.crt", "# company root, 2026\n"},
	} {
		secrets[entry.secret][entry.name] = append([]byte(entry.text), secrets[entry.secret][entry.name]...)
	}
	w.putAll(secrets)
	w.bringSafely()
}
