package model_test

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/user/model"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func clientsCA(t *testing.T, name string) model.CA {
	t.Helper()
	signer, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "io.strimzi", CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 365 * authority.Day, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return model.CA{Bundle: pki.EncodeBundle(signer.Certificate()), Signer: signer}
}

func alice() model.Certificate {
	return model.Certificate{
		User: "alice", Key: pki.DefaultLeafKey(pki.ECDSA), Validity: 90 * authority.Day, Renewal: 30 * authority.Day,
	}
}

func issued(t *testing.T, ca model.CA, want model.Certificate) map[string][]byte {
	t.Helper()
	outcome, err := ownca.New(ca.Signer).Issue(t.Context(), want.Request(noon()))
	if err != nil {
		t.Fatal(err)
	}
	certificate, granted := outcome.(issuer.Issued)
	if !granted {
		t.Fatalf("the outcome is %+v, want a certificate", outcome)
	}
	return ca.Issued(certificate)
}

func TestAUsersCertificateIsForClientsOnlyAndHasNoOrganization(t *testing.T) {
	t.Parallel()
	ca := clientsCA(t, "clients-ca v0")
	data := issued(t, ca, alice())
	chain, err := pki.ParseBundle(data[model.CertificateEntry])
	if err != nil || len(chain) != 1 {
		t.Fatalf("%s holds %d certificates (%v), want the leaf alone", model.CertificateEntry, len(chain), err)
	}
	leaf := chain[0]
	if leaf.Subject.String() != "CN=alice" {
		t.Errorf("the subject is %q, want CN=alice", leaf.Subject)
	}
	if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || leaf.IsCA {
		t.Errorf("the usages are %v (CA: %t), want those of a client", leaf.ExtKeyUsage, leaf.IsCA)
	}
	key, err := pki.ParsePrivateKey(data[model.KeyEntry])
	if err != nil || !key.Matches(leaf) {
		t.Errorf("the key does not belong to the certificate: %v", err)
	}
	if !bytes.Equal(data[model.CAEntry], ca.Bundle) {
		t.Error("ca.crt is not the bundle of the clients CA")
	}
	if _, got := model.Lifetime(data); !got.Equal(noon().Add(90 * authority.Day)) {
		t.Errorf("it expires at %s, want 90 days later", got)
	}
}

func TestACertificateStaysWhileItServes(t *testing.T) {
	t.Parallel()
	ca, next := clientsCA(t, "clients-ca v0"), clientsCA(t, "clients-ca v1")
	renewed, err := pki.RenewCA(ca.Signer.Certificate(), ca.Signer.Key(), 365*authority.Day, noon().Add(authority.Day))
	if err != nil {
		t.Fatal(err)
	}
	stored := issued(t, ca, alice())
	open, closed := authority.Window{Open: true}, authority.Window{Next: noon().Add(70 * authority.Day)}
	for name, c := range map[string]struct {
		change func(in *model.CertificateInput)
		want   authority.LeafAct
		reason authority.LeafReason
	}{
		"nothing has changed": {func(*model.CertificateInput) {}, authority.KeepLeaf, ""},
		"there is none":       {func(in *model.CertificateInput) { in.Stored = nil }, authority.ReissueLeaf, authority.LeafMissing},
		"its key is missing":  {func(in *model.CertificateInput) { in.Stored = without(stored, model.KeyEntry) }, authority.ReissueLeaf, authority.LeafMissing},
		"its key is another": {func(in *model.CertificateInput) {
			in.Stored = with(stored, model.KeyEntry, issued(t, ca, alice())[model.KeyEntry])
		}, authority.ReissueLeaf, authority.LeafKeyMismatch},
		"it is no certificate":          {func(in *model.CertificateInput) { in.Stored = with(stored, model.CertificateEntry, []byte("x")) }, authority.ReissueLeaf, authority.LeafUnreadable},
		"the CA was renewed":            {func(in *model.CertificateInput) { in.CA.Signer = renewed }, authority.KeepLeaf, ""},
		"the CA was replaced":           {func(in *model.CertificateInput) { in.CA = next }, authority.ReissueLeaf, authority.LeafSigner},
		"it is another user's":          {func(in *model.CertificateInput) { in.Want.User = "bob" }, authority.ReissueLeaf, authority.LeafSubject},
		"the algorithm has changed":     {func(in *model.CertificateInput) { in.Want.Key = pki.DefaultLeafKey(pki.RSA) }, authority.ReissueLeaf, authority.LeafKeyParameters},
		"it is due":                     {func(in *model.CertificateInput) { in.Now = noon().Add(61 * authority.Day) }, authority.ReissueLeaf, authority.LeafExpiring},
		"it is due outside of a window": {func(in *model.CertificateInput) { in.Now, in.Window = noon().Add(61*authority.Day), closed }, authority.PostponeLeaf, authority.LeafExpiring},
		"the CA's key is missing":       {func(in *model.CertificateInput) { in.CA.Signer = pki.Authority{} }, authority.KeepLeaf, ""},
		"nothing stored and no signer":  {func(in *model.CertificateInput) { in.Stored, in.CA.Signer = nil, pki.Authority{} }, authority.HoldLeaf, authority.LeafSigner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := model.CertificateInput{Want: alice(), CA: ca, Stored: stored, Window: open, Now: noon().Add(time.Hour)}
			c.change(&in)
			got := model.DecideCertificate(in)
			if got.Act != c.want || got.Reason != c.reason {
				t.Errorf("decided %s because of %q (%s), want %s because of %q", got.Act, got.Reason, got.Detail, c.want, c.reason)
			}
		})
	}
}

func TestAKeptCertificateGetsTheBundleOfToday(t *testing.T) {
	t.Parallel()
	ca := clientsCA(t, "clients-ca v0")
	stored := issued(t, ca, alice())
	ca.Bundle = append(bytes.Clone(ca.Bundle), clientsCA(t, "clients-ca v1").Bundle...)
	kept := ca.Kept(stored)
	if !bytes.Equal(kept[model.CAEntry], ca.Bundle) || !bytes.Equal(kept[model.KeyEntry], stored[model.KeyEntry]) ||
		!bytes.Equal(kept[model.CertificateEntry], stored[model.CertificateEntry]) {
		t.Error("the certificate or its key changed, or ca.crt is not the bundle of today")
	}
}

func with(data map[string][]byte, entry string, value []byte) map[string][]byte {
	changed := without(data, entry)
	changed[entry] = value
	return changed
}

func without(data map[string][]byte, entry string) map[string][]byte {
	changed := map[string][]byte{}
	for key, value := range data {
		if key != entry {
			changed[key] = value
		}
	}
	return changed
}
