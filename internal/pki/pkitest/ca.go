package pkitest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// CA is one that lasts a year from then on, with a key that is made quickly.
func CA(tb testing.TB, name string, from time.Time) pki.Authority {
	tb.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "example", CommonName: name},
		Key:     pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: 365 * 24 * time.Hour, Now: from,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}
