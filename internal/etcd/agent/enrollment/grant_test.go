package enrollment_test

import (
	"crypto/x509"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// naming is a publication or a pin that names one CA for each plane.
func naming(t *testing.T, ca pki.Authority) []byte {
	t.Helper()
	named := publication.Publication{Revision: 1, Trust: map[publication.Role][]string{}}
	for _, plane := range contract.Planes() {
		named.Trust[plane.Role()] = []string{pki.FingerprintOf(ca.Certificate()).String()}
	}
	data, err := named.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func cross(t *testing.T, outgoing, incoming pki.Authority) *x509.Certificate {
	t.Helper()
	certificate, err := pki.CrossSign(outgoing, incoming.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestACAThatThePinDoesNotNameNeedsACrossCertificate(t *testing.T) {
	t.Parallel()
	old, middle, next := pkitest.CA(t, "ca v0", noon()), pkitest.CA(t, "ca v1", noon()), pkitest.CA(t, "ca v2", noon())
	stranger := pkitest.CA(t, "ca v0", noon())
	for name, test := range map[string]struct {
		mounted []*x509.Certificate
		accepts bool
	}{
		"nothing shows that":                     {[]*x509.Certificate{next.Certificate(), old.Certificate()}, false},
		"the pinned CA has cross-signed it":      {[]*x509.Certificate{next.Certificate(), old.Certificate(), cross(t, old, next)}, true},
		"the pinned CA is not mounted":           {[]*x509.Certificate{next.Certificate(), cross(t, old, next)}, false},
		"a CA of the same name has cross-signed": {[]*x509.Certificate{next.Certificate(), old.Certificate(), stranger.Certificate(), cross(t, stranger, next)}, false},
		"the pinned CA has cross-signed another": {[]*x509.Certificate{next.Certificate(), old.Certificate(), cross(t, old, middle)}, false},
		"it has cross-signed the pinned CA":      {[]*x509.Certificate{next.Certificate(), old.Certificate(), cross(t, next, old)}, false},
		"a CA between them has cross-signed it":  {[]*x509.Certificate{cross(t, middle, next), cross(t, old, middle), old.Certificate(), next.Certificate()}, true},
		"one between them without cross-signing": {[]*x509.Certificate{cross(t, middle, next), middle.Certificate(), old.Certificate(), next.Certificate()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := map[string][]byte{agent.PublicationKey: naming(t, next)}
			for _, plane := range contract.Planes() {
				secret[plane.AnchorsKey()] = pki.EncodeBundle(test.mounted...)
			}
			annotations := agent.PinAnnotation + "=" + strconv.Quote(string(naming(t, old))) + "\n"
			grant, err := enrollment.Read(secret, map[string][]byte{agent.AnnotationsFile: []byte(annotations)})
			if (err == nil) != test.accepts {
				t.Fatalf("got %v, want that it is accepted: %t", err, test.accepts)
			}
			if err != nil && !strings.Contains(err.Error(), "to accept CA "+pki.FingerprintOf(next.Certificate()).String()) {
				t.Errorf("the reason is %v", err)
			}
			for _, plane := range contract.Planes() {
				if anchors := grant.Anchors[plane]; err == nil && (len(anchors) != 1 || !anchors[0].Equal(next.Certificate())) {
					t.Errorf("the %s plane trusts %d CAs, want the published one", plane, len(anchors))
				}
			}
		})
	}
}
