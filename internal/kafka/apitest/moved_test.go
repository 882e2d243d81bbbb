package apitest

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// A running cluster moves between a CA of Keyturn's, one of the user's and those of issuers, and back half-way.

// The names of CAs that a cluster moves between.
const (
	issuersOne = "company one"
	issuersTwo = "company two"
	usersOwn   = "corporate"
	keyturns   = "cluster-ca v0"
)

// move is a way of a cluster from one CA to another.
type move struct {
	// world is the cluster before.
	world func(t *testing.T) *world
	// there begins the move, and back takes it back.
	there, back func(w *world)
	from, to    string
}

func moves() map[string]move {
	return map[string]move{
		"from the CA of Keyturn's to an issuer": {
			world: func(t *testing.T) *world { w, _ := ownCluster(t); return w },
			there: (*world).moveOutside, back: (*world).moveInside, from: keyturns, to: issuersOne,
		},
		"from the user's CA to an issuer": {
			world: usersCluster,
			there: (*world).moveOutside, back: (*world).restoreOwn, from: usersOwn, to: issuersOne,
		},
		"from an issuer to the user's CA": {
			world: issuersCluster,
			there: func(w *world) { w.moveToOwnKeys(caNamed(w.t, usersOwn, longLasting)) },
			back:  (*world).moveOutside, from: issuersOne, to: usersOwn,
		},
		"from an issuer to another": {
			world: issuersCluster,
			there: func(w *world) { w.changeIssuer("company-two", caNamed(w.t, issuersTwo, longLasting)) },
			back:  func(w *world) { w.changeIssuer("company", w.elsewhere.before) }, from: issuersOne, to: issuersTwo,
		},
	}
}

func TestAClusterMovesToAnotherCA(t *testing.T) {
	t.Parallel()
	for name, m := range moves() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := m.world(t)
			m.there(w)
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantMoved(m.to, 2)
		})
	}
}

// Half-way nodes trust both CAs, or some present certificates of the next one already.
func TestAMoveThatIsTakenBackEndsAtTheCABefore(t *testing.T) {
	t.Parallel()
	for name, m := range moves() {
		for far, when := range map[string]func(w *world) func() bool{
			"one node trusts both":       func(w *world) func() bool { return w.trusts(1, m.to) },
			"all nodes trust both":       func(w *world) func() bool { return w.trusts(3, m.to) },
			"one node presents the next": func(w *world) func() bool { return w.presents(1, m.to) },
			"all nodes present the next": func(w *world) func() bool { return w.presents(3, m.to) },
		} {
			t.Run(name+"/"+far, func(t *testing.T) {
				t.Parallel()
				w := m.world(t)
				m.there(w)
				w.once(when(w), func() { m.back(w) })
				w.settle()
				w.clock.SetTime(w.clock.Now().Add(time.Hour))
				w.settle()

				w.wantMoved(m.from, 4)
			})
		}
	}
}

// wantMoved checks that everything presents certificates of a CA, and how often nodes were restarted at most.
func (w *world) wantMoved(to string, restarts int) {
	w.t.Helper()
	w.wantReady()
	w.wantLeavesSigned(to)
	if operator := w.first(w.secret("my-cluster-operator-certs").Data["cluster-operator.crt"]); operator.Issuer.CommonName != to {
		w.t.Errorf("the operator presents a certificate of %q, want %q", operator.Issuer, to)
	}
	for pod, times := range w.restarts() {
		if times > restarts {
			w.t.Errorf("%s was restarted %d times", pod, times)
		}
	}
	writes := w.faulty.Written
	w.run(4)
	if w.faulty.Written != writes {
		w.t.Errorf("%d writes at rest", w.faulty.Written-writes)
	}
}

// issuersCluster is a running cluster with certificates of an issuer, whose clients read again what they trust.
func issuersCluster(t *testing.T) *world {
	t.Helper()
	w, _ := outsideCluster(t)
	w.classic() // nobody can cross-sign
	return w
}

// usersCluster is a running cluster with a CA of the user's, and the issuer that it may move to.
func usersCluster(t *testing.T) *world {
	t.Helper()
	ca := caNamed(t, issuersOne, longLasting)
	w := outsideWorld(t, ca)
	w.classic()
	w.bringsBundle(ca.Certificate())
	w.corporate(caNamed(t, usersOwn, longLasting), 3)
	w.settle()
	return w
}

// moveInside makes the CA of a cluster Keyturn's again.
func (w *world) moveInside() { w.setType(true) }

// setType has no issuer issue the certificates of a cluster any more.
func (w *world) setType(generate bool) {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{
		"type": "strimzi.io", "generateCertificateAuthority": generate, "certManager": nil,
	}}})
}

// pause has the operator keep its hands off the cluster.
func (w *world) pause(value any) {
	w.t.Helper()
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": value})
}

// moveToOwnKeys takes the steps after which the user's CA follows that of an issuer.
func (w *world) moveToOwnKeys(ca pki.Authority) {
	w.t.Helper()
	w.without[readsBundle] = true // the user writes ca.crt
	w.pause(asked)
	old := w.caCertificate(authorities.Cluster)
	w.patch(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{authorities.CertGenerationAnnotation: w.nextGeneration()}},
		"data": map[string]any{
			authority.CertKey: pki.EncodeBundle(ca.Certificate()), authority.DatedCertKey(old): pki.EncodeBundle(old),
		},
	})
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "my-cluster-ca", Namespace: w.namespace,
			Labels: map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/kind": "Kafka"},
		},
		Data: map[string][]byte{authority.KeyKey: ca.Key().PEM()},
	})
	w.setType(false)
	w.pause(nil)
}

// nextGeneration is one more than that of ca.crt.
func (w *world) nextGeneration() string {
	w.t.Helper()
	n, err := strconv.Atoi(w.secret("my-cluster-ca-cert").Annotations[authorities.CertGenerationAnnotation])
	if err != nil {
		w.t.Fatal(err)
	}
	return strconv.Itoa(n + 1)
}

// restoreOwn puts the user's CA back whose key Secret is still there.
func (w *world) restoreOwn() {
	w.t.Helper()
	w.without[readsBundle] = true
	w.pause(asked)
	var own, others *x509.Certificate
	for _, cert := range w.certs.in(w.secret("my-cluster-ca-cert").Data[authority.CertKey]) {
		if cert.Subject.CommonName == usersOwn {
			own = cert
		} else {
			others = cert
		}
	}
	w.patch(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{authorities.CertGenerationAnnotation: w.nextGeneration()}},
		"data": map[string]any{
			authority.CertKey: pki.EncodeBundle(own), authority.DatedCertKey(own): nil, authority.DatedCertKey(others): pki.EncodeBundle(others),
		},
	})
	w.setType(false)
	w.pause(nil)
}

// changeIssuer has another issuer issue what nodes and the operator present, and announces its CA.
func (w *world) changeIssuer(name string, ca pki.Authority) {
	w.t.Helper()
	w.elsewhere.before, w.elsewhere.ca = w.elsewhere.ca, ca
	w.elsewhere.renew() // cert-manager does so when the name of the issuer changes
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(ca.Certificate()))
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{
		"certManager": map[string]any{"issuerRef": map[string]any{"name": name}},
	}}})
}

func TestAMoveGoesOnWithTheGateOffOnceANodePresentsACertificateOfTheIssuer(t *testing.T) {
	t.Parallel()
	for far, n := range map[string]int{"one node presents the next": 1, "all nodes present the next": 3} {
		t.Run(far, func(t *testing.T) {
			t.Parallel()
			w, _ := ownCluster(t)
			w.moveOutside()
			w.once(w.presents(n, issuersOne), func() { w.gates = featuregate.Gates{}; w.startOperator() })
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantMoved(issuersOne, 2)
			w.wantHeld("feature gate CertManagerCaType is off")
		})
	}
}

func TestAMoveStopsWithTheGateOffWhileNoNodePresentsACertificateOfTheIssuer(t *testing.T) {
	t.Parallel()
	w, _ := ownCluster(t)
	w.moveOutside()
	w.once(w.trusts(3, issuersOne), func() { w.gates = featuregate.Gates{}; w.startOperator() })
	w.settle()

	w.wantHeld("feature gate CertManagerCaType, which is off")
	w.wantLeavesSigned(keyturns)
}

// A cluster that has left its issuer does not run on it, whatever it has written down while it did.
func TestAClusterThatHasLeftItsIssuerDoesNotReturnWhileTheGateIsOff(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *world){
		"for the user's CA":     func(w *world) { w.moveToOwnKeys(caNamed(w.t, usersOwn, longLasting)) },
		"for a CA of Keyturn's": (*world).moveInside,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := issuersCluster(t)
			leave(w)
			w.settle()
			before := w.leafOf("my-dual-0")
			w.gates = featuregate.Gates{}
			w.startOperator()

			w.moveOutside()
			w.run(20)

			w.wantHeld("feature gate CertManagerCaType, which is off")
			if !w.leafOf("my-dual-0").Equal(before) {
				t.Error("its certificate was replaced")
			}
		})
	}
}

func TestTheKeyOfACAIsDeletedWhenAnIssuerHasReplacedItAndNothingNeedsIt(t *testing.T) {
	t.Parallel()
	w, _ := ownCluster(t)
	old := w.caCertificate(authorities.Cluster)
	needs := func() string {
		for _, name := range []string{"my-cluster-ca-cert", "my-cluster-ca-trusted-certs"} {
			for _, data := range w.secret(name).Data {
				if slices.ContainsFunc(w.certs.in(data), old.Equal) {
					return name + " has its certificate"
				}
			}
		}
		if w.presents(1, keyturns)() || w.trusts(1, keyturns)() {
			return "nodes present or trust it"
		}
		return ""
	}
	w.moveOutside()
	for w.hasKeySecret() {
		w.run(1)
		if why := needs(); why != "" && !w.hasKeySecret() {
			t.Fatalf("it is deleted while %s", why)
		}
		if len(w.happened) > 5000 {
			t.Fatalf("it is never deleted: %s", w.status(t.Context()))
		}
	}
	w.settle()

	w.wantMoved(issuersOne, 2)
	told := 0
	for _, reason := range w.events.reasons {
		if reason == "CaKeyDeleted" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times that it was deleted", told)
	}
}

func (w *world) hasKeySecret() bool {
	w.t.Helper()
	var key corev1.Secret
	err := w.api.Get(w.t.Context(), w.key("my-cluster-ca"), &key)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

func TestAKeyThatTheUserHasWrittenIsNotDeletedAfterAMove(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(t *testing.T) *world{
		"from the user's CA": usersCluster,
		"in the place of one of Keyturn's": func(t *testing.T) *world {
			t.Helper()
			w, _ := ownCluster(t)
			w.handToUser(caNamed(t, usersOwn, longLasting))
			w.settle()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bring(t)
			w.moveOutside()
			w.settle()

			w.wantMoved(issuersOne, 4)
			if !w.hasKeySecret() {
				t.Error("it is deleted")
			}
		})
	}
}

func TestAKeyIsNotDeletedWithWhatTheUserHasWrittenBesideItAfterAMove(t *testing.T) {
	t.Parallel()
	w, _ := ownCluster(t)
	next := caNamed(t, usersOwn, longLasting).Key().PEM()
	w.replaceData("my-cluster-ca", "next.key", next)
	w.moveOutside()
	w.settle()

	w.wantMoved(issuersOne, 2)
	if !w.hasKeySecret() || !bytes.Equal(w.secret("my-cluster-ca").Data["next.key"], next) {
		t.Fatal("the user's key is deleted")
	}
	w.wantReason(condition.Warning, "CertificateAuthority", "my-cluster-ca", "next.key", "delete the Secret")

	w.dropData("my-cluster-ca", "next.key")
	w.settle()
	if w.hasKeySecret() {
		t.Error("it is not deleted without the user's key")
	}
}

// Just before its deletion something else happens to the key.
func TestAKeyThatMayBeNeededAgainIsNotDeleted(t *testing.T) {
	t.Parallel()
	w, _ := ownCluster(t)
	own := caNamed(t, usersOwn, longLasting)
	replaced := false
	w.faulty.refuses = func(write kubetest.Write) error {
		if secret, is := write.Object.(*corev1.Secret); is && secret.Name == "my-cluster-ca" && !replaced {
			replaced = true
			w.replaceData("my-cluster-ca", authority.KeyKey, own.Key().PEM())
		}
		return nil
	}
	w.moveOutside()
	for range 80 {
		if _, err := w.round(t.Context()); err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		w.goOn(t.Context())
	}
	w.settle()

	if !replaced || !w.hasKeySecret() {
		t.Errorf("the key is replaced: %t, and still there: %t", replaced, w.hasKeySecret())
	}
	w.wantReady()
}

// A CA of Keyturn's may have had several keys before.
func TestGenerationsRiseInAMove(t *testing.T) {
	t.Parallel()
	w, _ := ownCluster(t)
	w.replace(authorities.Cluster)
	w.settle()
	w.replace(authorities.Cluster)
	w.settle()

	w.moveOutside()
	w.settle()
	w.wantGenerations("3", "3")
	w.wantReady()

	w.moveToOwnKeys(caNamed(t, usersOwn, longLasting))
	w.settle()
	w.moveOutside()
	w.settle()
	w.wantGenerations("5", "4")
	w.wantLeavesSigned(issuersOne)
}
