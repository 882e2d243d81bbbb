package issuertest_test

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/issuertest"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
)

// slow answers like a signer elsewhere: pending until somebody acts.
type slow struct {
	issuer.Issuer

	ready *bool
}

func (s slow) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := request.Validate(); err != nil {
		return issuer.Deny(err), nil
	}
	if !*s.ready {
		return issuer.Pending{Since: request.Now, Why: "the signer has not answered: approve the request"}, nil
	}
	*s.ready = false
	return s.Issuer.Issue(ctx, request)
}

func TestTheSuiteLetsAnIssuerTakeItsTime(t *testing.T) {
	t.Parallel()
	issuertest.Run(t, func(t *testing.T) issuertest.Fixture {
		t.Helper()
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{CommonName: "slow"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		ready := false
		return issuertest.Fixture{
			Issuer:  slow{Issuer: ownca.New(ca), ready: &ready},
			Anchors: []*x509.Certificate{ca.Certificate()},
			Now:     now,
			Advance: func(*testing.T) { ready = true },
		}
	})
}
