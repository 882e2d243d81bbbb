package harness

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// anchor is a CA certificate that is so many hours old.
func anchor(t *testing.T, name string, hours int) *x509.Certificate {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: authorities.Organization, CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 24 * time.Hour, Now: time.Now().Add(-time.Duration(hours) * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca.Certificate()
}

// secret is a trusted-certs Secret.
func secret(anchors ...Anchor) map[string][]byte {
	data := map[string][]byte{}
	for _, a := range anchors {
		name := pki.SHA1Name(a.Certificate)
		data[name+".crt"], data[name+".state"] = pki.EncodeBundle(a.Certificate), []byte(a.State)
	}
	return data
}

func TestChangesOfTrustAreToldInAFewWords(t *testing.T) {
	t.Parallel()
	v0, v1 := anchor(t, "cluster-ca v0", 2), anchor(t, "cluster-ca v1", 1)
	old, next := Anchor{Certificate: v0}.Name(), Anchor{Certificate: v1}.Name()
	in := func(state trust.State, certificate *x509.Certificate) Anchor {
		return Anchor{Certificate: certificate, State: state}
	}
	looks := []struct {
		trusted []Anchor
		bundle  []*x509.Certificate
		want    []string
	}{
		{[]Anchor{in(trust.InUseAll, v0)}, []*x509.Certificate{v0}, []string{old + " TRUSTED_IN_USE_ALL", old + " leads ca.crt"}},
		{[]Anchor{in(trust.Untrusted, v1), in(trust.InUseAll, v0)}, []*x509.Certificate{v0, v1}, []string{next + " UNTRUSTED"}},
		{[]Anchor{in(trust.Untrusted, v1), in(trust.InUseAll, v0)}, []*x509.Certificate{v0, v1}, nil},
		{
			[]Anchor{in(trust.PhaseOut, v0), in(trust.InUseAll, v1)},
			[]*x509.Certificate{v1, v0},
			[]string{old + " PHASE_OUT", next + " TRUSTED_IN_USE_ALL", next + " leads ca.crt"},
		},
		{[]Anchor{in(trust.InUseAll, v1)}, []*x509.Certificate{v1}, []string{old + " is gone"}},
	}
	var before Trust
	for i, look := range looks {
		now, err := readTrust(secret(look.trusted...), pki.EncodeBundle(look.bundle...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(look.want, now.Changes(before)); diff != "" {
			t.Errorf("look %d (-want +got):\n%s", i, diff)
		}
		before = now
	}
}

func TestDamagedTrustIsNamed(t *testing.T) {
	t.Parallel()
	good := pki.EncodeBundle(anchor(t, "cluster-ca v0", 1))
	if _, err := readTrust(map[string][]byte{"aa.crt": []byte("x")}, good); err == nil {
		t.Error("an anchor that is no certificate is accepted")
	}
	if _, err := readTrust(nil, []byte("x")); err == nil {
		t.Error("a bundle that is none is accepted")
	}
}
