package authority_test

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// due is a leaf that its own CA shall issue again, because a name was added.
func due(t *testing.T, in *authority.LeafInput) {
	t.Helper()
	in.Want.SANs = sans(t, "other.example.org")
}

// resigned is a leaf that another CA shall issue, with a cross certificate that belongs to that CA.
func resigned(t *testing.T, in *authority.LeafInput) {
	t.Helper()
	in.Want.Authority = pkitest.CA(t, "cluster-ca v1", noon())
	in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
}

func TestALeafStaysInForceWhateverItsRequestComesTo(t *testing.T) {
	t.Parallel()
	since := noon().Add(-time.Hour)
	pending := authority.RequestState{Status: authority.RequestPending, Since: since, Why: "approve it"}
	denied := authority.RequestState{Status: authority.RequestDenied, Why: "correct it"}
	none := authority.RequestState{}
	for name, c := range map[string]struct {
		changes []func(t *testing.T, in *authority.LeafInput)
		answer  issuer.Outcome
		act     authority.LeafAct
		request authority.RequestState
		// inForce is false where the stored leaf cannot be used, and chain is how many certificates are published with it.
		inForce bool
		chain   int
	}{
		"nothing is due, whatever the issuer says": {nil, issuer.Pending{Since: since, Why: "approve it"}, authority.KeepLeaf, none, true, 1},
		"it is due, and the issuer was not asked":  {changes(due), nil, authority.ReissueLeaf, none, true, 1},
		"it is due and pending":                    {changes(due), issuer.Pending{Since: since, Why: "approve it"}, authority.HoldLeaf, pending, true, 1},
		"it is due and denied":                     {changes(due), issuer.Denied{Why: "correct it"}, authority.HoldLeaf, denied, true, 1},
		"it is denied and its own CA is crossed": {
			changes(due, crossed), issuer.Denied{Why: "correct it"}, authority.HoldLeaf, denied, true, 2,
		},
		"it waits and its own CA is crossed": {changes(due, crossed, waits), nil, authority.HoldLeaf, none, true, 2},
		"another CA is asked, and it is pending": {
			changes(resigned), issuer.Pending{Since: since, Why: "approve it"}, authority.HoldLeaf, pending, true, 1,
		},
		"it has expired, and it is pending": {
			changes(expired), issuer.Pending{Since: since, Why: "approve it"}, authority.HoldLeaf, pending, true, 1,
		},
		"there is none, and it is denied":          {changes(missing), issuer.Denied{Why: "correct it"}, authority.HoldLeaf, denied, false, 0},
		"its key is another one, and it is denied": {changes(otherKey), issuer.Denied{Why: "correct it"}, authority.HoldLeaf, denied, false, 0},
		"no authority can sign, and its key is another one": {
			changes(otherKey, unsigned), nil, authority.HoldLeaf, none, false, 0,
		},
		"no authority can sign, and it has expired": {changes(expired, unsigned), nil, authority.HoldLeaf, none, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := settled(t)
			for _, change := range c.changes {
				change(t, &in)
			}
			in.Answer = c.answer

			got := authority.DecideLeaf(in)

			if got.Act != c.act || got.State.Offered != nil {
				t.Errorf("%s because of %q (%s), want %s", got.Act, got.Reason, got.Detail, c.act)
			}
			if diff := cmp.Diff(c.request, got.State.Request); diff != "" {
				t.Errorf("the request: -want +got:\n%s", diff)
			}
			if (got.State.InForce != nil) != c.inForce || (got.Leaf != nil) != c.inForce {
				t.Fatalf("in force: %t, published: %t, want %t", got.State.InForce != nil, got.Leaf != nil, c.inForce)
			}
			if !c.inForce {
				return
			}
			if !bytes.Equal(got.State.InForce.Certificates, in.Stored.Certificates) || !bytes.Equal(got.Leaf.Key, in.Stored.Key) {
				t.Error("what is in force is not what is stored")
			}
			chain, err := pki.ParseBundle(got.Leaf.Certificates)
			if err != nil || len(chain) != c.chain || len(got.Leaf.Chain) != c.chain || !chain[0].Equal(parse(t, in.Stored.Certificates)) {
				t.Errorf("%d certificates are published (%v), want the stored one and %d more", len(chain), err, c.chain-1)
			}
		})
	}
}

func TestAnIssuedLeafIsAdoptedWithTheChainOfItsSigner(t *testing.T) {
	t.Parallel()
	in := settled(t)
	resigned(t, &in)
	var err error
	in.Answer, err = ownca.New(in.Want.Authority).Issue(t.Context(), issuer.Request{
		Name: "my-dual-0", Subject: in.Want.Subject, SANs: in.Want.SANs, Usages: pki.BothUsages(),
		Validity: in.Want.Validity, Renewal: in.Want.Renewal, Key: in.Want.Key, Now: in.Now,
	})
	if err != nil {
		t.Fatal(err)
	}

	got := authority.DecideLeaf(in)

	if got.Act != authority.AdoptLeaf || got.Reason != authority.LeafSigner || got.Leaf != got.State.Offered || got.State.InForce == nil {
		t.Fatalf("%s because of %q, in force: %t", got.Act, got.Reason, got.State.InForce != nil)
	}
	in.Stored, in.Answer = got.Leaf.StoredLeaf, nil
	if again := authority.DecideLeaf(in); again.Act != authority.KeepLeaf || len(again.Leaf.Chain) != 2 {
		t.Errorf("once it is stored: %s because of %q, with %d certificates", again.Act, again.Reason, len(again.Leaf.Chain))
	}
}

func changes(all ...func(*testing.T, *authority.LeafInput)) []func(*testing.T, *authority.LeafInput) {
	return all
}

func crossed(t *testing.T, in *authority.LeafInput) {
	t.Helper()
	in.Want.Chain = []*x509.Certificate{crossOf(t, in.Want.Authority)}
}

func waits(_ *testing.T, in *authority.LeafInput) { in.Waits = "it waits" }

func expired(_ *testing.T, in *authority.LeafInput) { in.Now = noon().Add(101 * day) }

func missing(_ *testing.T, in *authority.LeafInput) { in.Stored = authority.StoredLeaf{} }

func unsigned(_ *testing.T, in *authority.LeafInput) { in.Want.Authority = pki.Authority{} }

func otherKey(t *testing.T, in *authority.LeafInput) {
	t.Helper()
	in.Stored.Key = pkitest.CA(t, "x", noon()).Key().PEM()
}
