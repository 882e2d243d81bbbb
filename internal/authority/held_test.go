package authority_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestTheRefusalOfLostSecretsNamesTheCAThatNodesHold(t *testing.T) {
	t.Parallel()
	print256 := func(cert *x509.Certificate) string { return pki.FingerprintOf(cert).String() }
	tests := map[string]struct {
		change func(w *world, ca *x509.Certificate)
		says   func(ca *x509.Certificate) []string
	}{
		"pods mount it": {
			func(w *world, ca *x509.Certificate) { w.trusts(ca) },
			func(ca *x509.Certificate) []string { return []string{`"CN=issuing`, print256(ca)} },
		},
		"an agent shows it": {
			func(w *world, ca *x509.Certificate) {
				w.in.Evidence.Named = []pki.Fingerprint{pki.FingerprintOf(ca)}
				w.in.Evidence.Reported = []*x509.Certificate{ca}
			},
			func(ca *x509.Certificate) []string { return []string{`"CN=issuing`, print256(ca)} },
		},
		"only its fingerprint is left, and leaves": {
			func(w *world, ca *x509.Certificate) {
				w.in.Evidence.Named = []pki.Fingerprint{pki.FingerprintOf(ca)}
				w.in.Evidence.Leaves = []*x509.Certificate{{Issuer: ca.Subject}}
			},
			func(ca *x509.Certificate) []string {
				return []string{"the CA with SHA-256 fingerprint " + print256(ca), `issued by "CN=issuing`}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, chain := userWorld(t)
			ca := chain.issuing.Certificate()
			w.in.KeySecret, w.in.CertSecret = authority.Stored{}, authority.Stored{}
			test.change(w, ca)
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, append(test.says(ca), "my-cluster-ca-cert", "was not found")...)
		})
	}
}

func TestNobodyIsSentForABackupOfAStranger(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	w.in.KeySecret, w.in.CertSecret = authority.Stored{}, authority.Stored{}
	stranger := pkitest.CA(t, "stranger", noon()).Certificate()
	w.trusts(chain.issuing.Certificate(), stranger)
	w.in.Evidence.Named = []pki.Fingerprint{pki.FingerprintOf(chain.issuing.Certificate())}
	w.in.Evidence.Reported = []*x509.Certificate{stranger}
	_, err := authority.Decide(w.in)
	if err == nil || strings.Contains(err.Error(), "stranger") || !strings.Contains(err.Error(), "CN=issuing") {
		t.Errorf("it is said: %v", err)
	}
}
