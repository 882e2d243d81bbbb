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

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// A listener with a certificate of the user's own.

// closedWindow is open for one hour, eleven hours after tests begin.
const closedWindow = "* * 23 * * ?"

func TestBrokersCarryAListenersOwnCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	certificate := w.customListener("custom")

	for _, pod := range []string{"my-brk-0", "my-brk-1", "my-brk-2"} {
		data := w.secret(pod).Data
		if !bytes.Equal(data["tls-9093.crt"], certificate.Data["tls.crt"]) || !bytes.Equal(data["tls-9093.key"], certificate.Data["tls.key"]) {
			t.Errorf("Secret %s holds %v, and not the custom certificate", pod, slices.Sorted(maps.Keys(data)))
		}
	}
	want := "{tls=" + pki.SHA1Name(w.first(certificate.Data["tls.crt"]))[:8] + "}"
	for pod := range w.podUIDs() {
		var object corev1.Pod
		w.get(pod, &object)
		got, annotated := object.Annotations[model.ListenerCertsAnnotation]
		if broker := strings.HasPrefix(pod, "my-brk"); annotated != broker || (broker && got != want) {
			t.Errorf("pod %s: the annotation is %q, want %q on brokers alone", pod, got, want)
		}
	}
}

func TestTheKeyOfAListenerIsNotGivenToControllers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")

	for _, pod := range []string{"my-ctrl-3", "my-ctrl-4", "my-ctrl-5"} {
		if _, given := w.secret(pod).Data["tls-9093.key"]; given {
			t.Errorf("Secret %s holds the private key of a listener that its node does not have", pod)
		}
	}
}

func TestTheStatusShowsAListenersOwnCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	certificate := w.customListener("custom")

	for _, listener := range w.getKafka().Status.Listeners {
		own := len(listener.Certificates) == 1 && listener.Certificates[0] == string(certificate.Data["tls.crt"])
		if own != (listener.Name == "tls") {
			t.Errorf("listener %s shows %q", listener.Name, listener.Certificates)
		}
	}
}

func TestTheStatusNamesAListenerOnceNodesAreRestartedForIt(t *testing.T) {
	t.Parallel()
	for name, isSilent := range map[string]bool{"nodes are restarted": false, "no node may be restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			before := w.podUIDs()
			for pod := range before {
				w.silent[pod] = isSilent
			}
			w.patchKafka(map[string]any{"listeners": []any{listenerOf("tls", 9093), listenerOf("mtls", 9094), listenerOf("aaa", 9095)}})
			isNamed := false
			for range 40 {
				w.run(1)
				isNamed = slices.ContainsFunc(w.getKafka().Status.Listeners, func(l kafkav1.ListenerStatus) bool { return l.Name == "aaa" })
				if isNamed {
					break
				}
			}
			left := 0
			for pod, uid := range w.podUIDs() {
				if before[pod] == uid {
					left++
				}
			}
			if isNamed != (left == 0) || isNamed == isSilent {
				t.Errorf("the status names the listener: %t, with %d of 3 nodes to be restarted", isNamed, left)
			}
		})
	}
}

func listenerOf(name string, port int) map[string]any {
	return map[string]any{"name": name, "port": port, "type": "internal", "tls": true, "authentication": map[string]any{"type": "tls"}}
}

func TestAReplacedCertificateIsLoadedOutsideOfTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"maintenanceTimeWindows": []any{closedWindow}}})
	w.settle()

	w.replaceCertificate("custom", w.issue(listenerLeaf{}))
	w.settle()

	w.wantCustom()
}

// A certificate of 90 days is told of in its last quarter: whoever renews it by a program does so before.
func TestAListenerCertificateThatNobodyRenewsIsAWarningBeforeItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	end := w.first(w.secret("custom").Data["tls.crt"]).NotAfter
	w.clock.SetTime(end.Add(-25 * authority.Day))
	w.settle()
	if w.hasReason("ListenerCertificateExpiring") {
		t.Error("it is told of although a program may still renew it")
	}
	w.clock.SetTime(end.Add(-20 * authority.Day))
	w.settle()
	w.wantCondition(condition.Warning, "tls.crt expires at "+end.UTC().Format(time.RFC3339), "put a new one into the Secret")

	w.replaceCertificate("custom", w.issue(listenerLeaf{made: w.clock.Now()}))
	w.settle()
	if w.hasReason("ListenerCertificateExpiring") {
		t.Error("it is told of a certificate that was renewed")
	}
}

// wantCustom checks that brokers have loaded the custom certificate as it is now,
// and that nothing was restarted for it.
func (w *world) wantCustom() {
	w.t.Helper()
	want := w.first(w.secret("custom").Data["tls.crt"])
	for _, s := range w.servers {
		loaded, listens := s.loaded["tls-9093"]
		if listens && !loaded.chain[0].Equal(want) {
			w.t.Errorf("pod %s presents another certificate", s.pod)
		}
	}
	w.wantRestarts(0)
}

func TestWithoutReloadAReplacedCertificateRollsBrokersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()

	w.replaceCertificate("custom", w.issue(listenerLeaf{}))
	w.settle()

	if want := []string{"my-brk-0", "my-brk-1", "my-brk-2"}; !slices.Equal(w.faulty.podsDeleted, want) {
		t.Errorf("%v were restarted, want each of %v once", w.faulty.podsDeleted, want)
	}
}

func TestABadReplacementIsNamedAndTheCertificateFromBeforeStaysInUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  listenerLeaf
		says string
	}{
		"it has expired":                  {listenerLeaf{made: start().Add(-100 * authority.Day)}, "expired"},
		"its key is another one":          {listenerLeaf{key: otherKey}, "does not belong"},
		"its names do not cover brokers":  {listenerLeaf{names: []string{"kafka.example.org"}}, "does not cover"},
		"its issuer may not name brokers": {listenerLeaf{domain: "example.org"}, "clients reject it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.customListener("custom").Data["tls.crt"]

			w.replaceCertificate("custom", w.issue(c.bad))
			w.settle()

			w.wantCondition(condition.Warning, "Secret custom", c.says, "stays in use")
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("%v were restarted", w.faulty.podsDeleted)
			}
			if !bytes.Equal(w.secret("my-brk-0").Data["tls-9093.crt"], before) {
				t.Error("the certificate from before is gone")
			}
			if !has(w.getKafka(), condition.Ready) {
				t.Error("the cluster is not ready")
			}
		})
	}
}

func TestABadReplacementThatIsCorrectedIsLoadedAndNoLongerNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	w.replaceCertificate("custom", w.issue(listenerLeaf{key: otherKey}))
	w.settle()

	w.replaceCertificate("custom", w.issue(listenerLeaf{}))
	w.settle()

	w.wantCustom()
	if has(w.getKafka(), condition.Warning) {
		t.Errorf("conditions are %+v, want no warning", w.getKafka().Status.Conditions)
	}
}

func TestACertificateWithoutTheBootstrapNameIsPresentedAndNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")

	w.replaceCertificate("custom", w.issue(listenerLeaf{names: []string{"*.my-kafka-brokers." + w.namespace + ".svc"}}))
	w.settle()

	w.wantCustom()
	w.wantCondition(condition.Warning, "Secret custom", "listener tls", "does not cover my-kafka-bootstrap."+w.namespace+".svc")
	host, _, _ := strings.Cut(w.getKafka().Status.Listeners[0].BootstrapServers, ":")
	if host != "my-kafka-bootstrap."+w.namespace+".svc" {
		t.Errorf("clients begin at %s", host)
	}
}

func TestAReplacementThatIsNotValidYetIsLoadedWhenItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")

	w.replaceCertificate("custom", w.issue(listenerLeaf{made: w.clock.Now().Add(pki.Backdate + 2*time.Minute)}))
	w.run(3)
	w.wantCondition(condition.Warning, "Secret custom", "is not valid before", "stays in use")
	w.settle()

	w.wantCustom()
}

// listenerLeaf says in what a listener's certificate differs from a good one.
type listenerLeaf struct {
	names []string
	// domain is that in which its issuer may issue names, which is then presented, too.
	domain string
	made   time.Time
	// key returns the key that is stored beside the certificate.
	key func(*testing.T, pki.PrivateKey) pki.PrivateKey
}

func otherKey(t *testing.T, _ pki.PrivateKey) pki.PrivateKey {
	t.Helper()
	return newKey(t)
}

func newKey(t *testing.T) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns the data of a Secret with a certificate of somebody else's CA.
func (w *world) issue(leaf listenerLeaf) map[string][]byte {
	w.t.Helper()
	if leaf.names == nil {
		leaf.names = []string{"*.my-kafka-brokers." + w.namespace + ".svc", "my-kafka-bootstrap." + w.namespace + ".svc"}
	}
	if leaf.made.IsZero() {
		leaf.made = start()
	}
	sans, err := pki.NewSANs(leaf.names...)
	if err != nil {
		w.t.Fatal(err)
	}
	spec := pki.CASpec{
		Subject: pki.Subject{CommonName: "corporate"}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: 2000 * authority.Day, Now: leaf.made,
	}
	if leaf.domain != "" {
		spec.PermittedDNS = []string{leaf.domain}
	}
	ca, err := pki.NewCA(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	key := newKey(w.t)
	certificate, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "kafka"}, SANs: sans, Usages: []pki.Usage{pki.ServerAuth}, Validity: 90 * authority.Day, Now: leaf.made,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if leaf.key != nil {
		key = leaf.key(w.t, key)
	}
	chain := []*x509.Certificate{certificate}
	if leaf.domain != "" {
		chain = append(chain, ca.Certificate())
	}
	return map[string][]byte{"tls.crt": pki.EncodeBundle(chain...), "tls.key": key.PEM()}
}

// customListener makes a cluster of controllers and brokers whose listener tls
// presents the certificate of the Secret, which it returns.
func (w *world) customListener(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}, Data: w.issue(listenerLeaf{})}
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Listeners[0].Configuration = customCertificate(name)
	w.create(secret, kafka)
	w.separatePools()
	w.settle()
	for _, s := range w.servers {
		if _, listens := s.loaded["tls-9093"]; listens {
			return secret
		}
	}
	w.t.Fatal("no broker has loaded the listener")
	return nil
}

// separatePools are three brokers with the ids 0 to 2, and three controllers with
// the ids 3 to 5.
func (w *world) separatePools() {
	w.t.Helper()
	w.create(poolResource(w.namespace, "brk", 3, kafkav1.RoleBroker), poolResource(w.namespace, "ctrl", 3, kafkav1.RoleController))
}

func (w *world) replaceCertificate(secret string, data map[string][]byte) {
	w.t.Helper()
	w.patch(&corev1.Secret{}, secret, map[string]any{"data": map[string]any{"tls.crt": data["tls.crt"], "tls.key": data["tls.key"]}})
}
