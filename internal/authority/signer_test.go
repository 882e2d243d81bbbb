package authority_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

func signing(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: authority.Day, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestTheSignerIsTheEntryThatTheKeyBelongsTo(t *testing.T) {
	t.Parallel()
	old, next := signing(t, "clients-ca v0"), signing(t, "clients-ca v1")
	cross, err := pki.CrossSign(old, next.Certificate(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	both := pki.EncodeBundle(old.Certificate(), next.Certificate())
	cases := map[string]struct {
		bundle   []byte
		data     map[string][]byte
		want     *x509.Certificate
		presents int
	}{
		"the old one leads, and signs": {bundle: both, data: map[string][]byte{"ca.key": old.Key().PEM()}, want: old.Certificate()},
		"the old one leads, and the new one signs": {
			bundle: both, data: map[string][]byte{"ca.key": next.Key().PEM(), "ca-cross.crt": pki.EncodeBundle(cross)}, want: next.Certificate(), presents: 1,
		},
		"a pending key signs nothing": {
			bundle: both, data: map[string][]byte{"ca.key": old.Key().PEM(), "next-ca.key": next.Key().PEM()}, want: old.Certificate(),
		},
		"a key of nobody":    {bundle: pki.EncodeBundle(old.Certificate()), data: map[string][]byte{"ca.key": next.Key().PEM()}},
		"a key that is lost": {bundle: both, data: map[string][]byte{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := authority.Signer(c.bundle, c.data, time.Now())
			if (err == nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			if c.want != nil && (!got.Certificate().Equal(c.want) || len(got.Presents()) != c.presents) {
				t.Errorf("%s signs and presents %d more, want %s and %d", got.Certificate().Subject, len(got.Presents()), c.want.Subject, c.presents)
			}
		})
	}
}
