package binding_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// withStores is the connection of a user with a certificate, or with a password.
func withStores(t *testing.T, user binding.User, trusted ...*x509.Certificate) (binding.Connection, pki.Authority) {
	t.Helper()
	connection := connectionAs(user)
	authentication := kafkav1.AuthenticationTLS
	if user == binding.SCRAM {
		authentication = kafkav1.AuthenticationSCRAM
	}
	connection.Listener = listener("tls", kafkav1.ListenerInternal, true, authentication)
	identity := pkitest.CA(t, "my-user", now())
	connection.Credentials.Data["user.crt"], connection.Credentials.Data["user.key"] = pki.EncodeBundle(identity.Certificate()), identity.Key().PEM()
	connection.Truststore = pki.EncodeBundle(trusted...)
	return connection, identity
}

func dataOf(t *testing.T, connection *binding.Connection, held map[string][]byte) map[string][]byte {
	t.Helper()
	data, err := connection.Data(binding.Stores, held)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheKeysAreThoseOfTheProposal(t *testing.T) {
	t.Parallel()
	root := pkitest.CA(t, "root", now()).Certificate()
	all := []string{"bootstrap.servers", "provider", "security.protocol", "type"}
	trust := []string{"ssl.truststore.crt", "ssl.truststore.p12", "ssl.truststore.password"}
	for user, more := range map[binding.User][]string{
		binding.TLS:         {"ssl.keystore.crt", "ssl.keystore.key", "ssl.keystore.p12", "ssl.keystore.password"},
		binding.TLSExternal: {},
		binding.SCRAM:       {"password", "sasl.jaas.config", "sasl.mechanism", "username"},
		binding.Anonymous:   {},
	} {
		connection, _ := withStores(t, user, root)
		want := slices.Sorted(slices.Values(slices.Concat(all, trust, more)))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(dataOf(t, &connection, nil)))); diff != "" {
			t.Errorf("%s: keys differ (-want +got):\n%s", user, diff)
		}
	}
	connection, _ := withStores(t, binding.Anonymous)
	if diff := cmp.Diff(all, slices.Sorted(maps.Keys(dataOf(t, &connection, nil)))); diff != "" {
		t.Errorf("what the system trusts: keys differ (-want +got):\n%s", diff)
	}
}

func TestStoresHoldWhatThePEMHoldsUnderPasswordsThatStay(t *testing.T) {
	t.Parallel()
	first, second := pkitest.CA(t, "first", now()).Certificate(), pkitest.CA(t, "second", now()).Certificate()
	connection, identity := withStores(t, binding.TLS, first)
	data := dataOf(t, &connection, nil)
	if diff := cmp.Diff(data, dataOf(t, &connection, data)); diff != "" {
		t.Errorf("it is written again although nothing has changed:\n%s", diff)
	}

	renewed, other := withStores(t, binding.TLS, first, second, first)
	after := dataOf(t, &renewed, data)
	for _, key := range []string{"ssl.truststore.password", "ssl.keystore.password"} {
		if !bytes.Equal(after[key], data[key]) || len(data[key]) == 0 {
			t.Errorf("%s is %q, and was %q", key, after[key], data[key])
		}
	}
	entries := []pki.TrustEntry{{Certificate: first}, {Certificate: second}}
	if !pki.TrustStoreHolds(after["ssl.truststore.p12"], string(data["ssl.truststore.password"]), entries) {
		t.Error("the truststore does not hold both CAs")
	}
	password := string(data["ssl.keystore.password"])
	if !pki.KeyStoreHolds(data["ssl.keystore.p12"], password, identity.Key(), []*x509.Certificate{identity.Certificate()}) {
		t.Error("the keystore does not hold the first identity")
	}
	if !pki.KeyStoreHolds(after["ssl.keystore.p12"], password, other.Key(), []*x509.Certificate{other.Certificate()}) {
		t.Error("the keystore does not hold the second identity")
	}
}

// A broker that trusts the root alone needs the issuer of the client's certificate from the client.
func TestAKeystoreHoldsTheIssuersThatTheCertificateStandsBefore(t *testing.T) {
	t.Parallel()
	root := pkitest.CA(t, "root", now())
	connection, identity := withStores(t, binding.TLS, root.Certificate())
	issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", now()), func(*x509.Certificate) {})
	leaf := pkitest.Changed(t, issuing, identity, func(*x509.Certificate) {}).Certificate()
	alone := dataOf(t, &connection, nil)
	connection.Credentials.Data["user.crt"] = pki.EncodeBundle(leaf, issuing.Certificate())
	data := dataOf(t, &connection, alone)
	chain := []*x509.Certificate{leaf, issuing.Certificate()}
	if !pki.KeyStoreHolds(data["ssl.keystore.p12"], string(data["ssl.keystore.password"]), identity.Key(), chain) {
		t.Error("the keystore does not hold the chain")
	}
	if diff := cmp.Diff(data, dataOf(t, &connection, data)); diff != "" {
		t.Errorf("it is written again although nothing has changed:\n%s", diff)
	}
}

func TestAPasswordThatNoStoreCanHaveIsReplaced(t *testing.T) {
	t.Parallel()
	connection, _ := withStores(t, binding.TLS, pkitest.CA(t, "root", now()).Certificate())
	held := map[string][]byte{"ssl.truststore.password": []byte("\xff\U0001F511"), "ssl.keystore.password": []byte("of a person")}
	data := dataOf(t, &connection, held)
	if bytes.Equal(data["ssl.truststore.password"], held["ssl.truststore.password"]) {
		t.Error("the truststore cannot be opened")
	}
	if string(data["ssl.keystore.password"]) != "of a person" {
		t.Error("a password that a person has chosen is gone")
	}
}

func TestNoStoreIsMadeOfWhatIsNoCertificate(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*binding.Connection){
		"trust":       func(c *binding.Connection) { c.Truststore = []byte("first") },
		"certificate": func(c *binding.Connection) { c.Credentials.Data["user.crt"] = []byte("certificate") },
		"key":         func(c *binding.Connection) { c.Credentials.Data["user.key"] = []byte("key") },
	} {
		connection, _ := withStores(t, binding.TLS, pkitest.CA(t, "root", now()).Certificate())
		spoil(&connection)
		_, err := connection.Data(binding.Stores, nil)
		if reason := problemOf(t, err); reason != binding.IncompleteSecret {
			t.Errorf("%s: the reason is %q", name, reason)
		}
	}
}
