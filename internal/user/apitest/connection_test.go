package apitest

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/user/controller"
)

func TestEveryConnectionReadsItsCertificateAndItsTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := types.NamespacedName{Namespace: w.namespace, Name: cluster}
	options := controller.Connection(name, controller.StoredCredentials(w.asOperator, name), w.clock)
	for _, missing := range []string{"my-cluster-cluster-operator-certs", "my-cluster-cluster-ca-cert"} {
		if _, err := options.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "Secret "+missing+" does not exist") {
			t.Errorf("the error is %v, want one that names Secret %s", err, missing)
		}
		w.connectable("ca v0")
		w.remove("my-cluster-cluster-ca-cert")
	}
	for _, name := range []string{"ca v0", "ca v1"} {
		ca := w.connectable(name)
		credentials, err := options.Credentials(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(credentials.Identity.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if !pki.IssuedBy(leaf, ca.Certificate()) || len(credentials.Anchors) != 1 || !credentials.Anchors[0].Equal(ca.Certificate()) {
			t.Errorf("the connection does not have the certificate and the trust of %s", name)
		}
	}
	w.put("my-cluster-cluster-operator-certs", map[string][]byte{"cluster-operator.crt": []byte("x")})
	if _, err := options.Credentials(t.Context()); err == nil || !strings.Contains(err.Error(), "Secret my-cluster-cluster-operator-certs") {
		t.Errorf("the error is %v, want one that names the Secret", err)
	}
}

// connectable stores the cluster operator's certificate of a new cluster CA.
func (w *world) connectable(name string) pki.Authority {
	w.t.Helper()
	ca := agenttest.Authority(w.t, name, time.Now())
	operator := agenttest.Operator(w.t, ca, time.Now())
	w.put("my-cluster-cluster-operator-certs", map[string][]byte{
		"cluster-operator.crt": pki.EncodeBundle(operator.Chain...), "cluster-operator.key": operator.Key.PEM(),
	})
	w.put("my-cluster-cluster-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(ca.Certificate())})
	return ca
}
