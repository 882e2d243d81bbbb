package apitest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/issuer/issuertest"
)

// current is the issuer of a world as its options are at each call.
type current struct{ *world }

func (c current) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	return c.issuer().Issue(ctx, request)
}

func (c current) Withdraw(ctx context.Context, keep []string) error {
	return c.issuer().Withdraw(ctx, keep)
}

// clockDifference is how much later than cert-manager the requests of the suite are made: its leaves begin when they
// are issued.
const clockDifference = 2 * time.Minute

func TestCertManagerIsAnIssuer(t *testing.T) {
	t.Parallel()
	issuertest.Run(t, func(t *testing.T) issuertest.Fixture {
		t.Helper()
		w := newWorld(t)
		return issuertest.Fixture{
			Issuer: current{w}, Anchors: w.anchors(), Now: time.Now().Add(clockDifference), Advance: w.advance,
			Refuse: func(*testing.T) {
				w.denies = true
				// cert-manager's own approver leaves requests to others alone.
				w.options.Issuer = certmanager.Reference{Name: "company", Kind: "PolicyIssuer", Group: "example.com"}
			},
			Open: func(t *testing.T) []string {
				t.Helper()
				var names []string
				for _, certificate := range w.list("Certificate") {
					names = append(names, certificate.GetName())
				}
				return slices.Sorted(slices.Values(names))
			},
		}
	}, issuertest.NamesAuthority, issuertest.EndsInTime)
}
