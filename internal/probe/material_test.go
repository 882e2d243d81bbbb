package probe_test

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

const day = 24 * time.Hour

func newCA(t *testing.T, commonName string) pki.Authority {
	t.Helper()
	authority, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "io.strimzi", CommonName: commonName},
		Key:     pki.DefaultCAKey(pki.ECDSA), Validity: day, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// leafOf issues a leaf from now on for as long as validity.
func leafOf(t *testing.T, authority pki.Authority, spec pki.LeafSpec) (chain, key []byte) {
	t.Helper()
	private, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Issue(private.Signer().Public(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeBundle(slices.Insert(authority.Presents(), 0, leaf)...), private.PEM()
}

// leafPEM is the key store of a server: key and chain in one text.
func leafPEM(t *testing.T, authority pki.Authority, commonName string, hosts ...string) []byte {
	t.Helper()
	chain, key := leafOf(t, authority, serverSpec(t, commonName, hosts...))
	return append(key, chain...)
}

func serverSpec(t *testing.T, commonName string, hosts ...string) pki.LeafSpec {
	t.Helper()
	sans, err := pki.NewSANs(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return pki.LeafSpec{
		Subject: pki.Subject{CommonName: commonName}, SANs: sans,
		Usages: pki.BothUsages(), Validity: day, Now: time.Now(),
	}
}

func credential(t *testing.T, authority pki.Authority, commonName string) probe.Credential {
	t.Helper()
	chain, key := leafOf(t, authority, pki.LeafSpec{
		Subject: pki.Subject{CommonName: commonName}, Usages: []pki.Usage{pki.ClientAuth}, Validity: day, Now: time.Now(),
	})
	present, err := probe.Present(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return present
}

func leave(t *testing.T, folder string, result probe.Result) {
	t.Helper()
	picture, err := timeline.Render(result.Timeline("rolling restart"))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Write(folder, result.Report("probe/real-kafka", report.Machine()), report.Picture(picture)); err != nil {
		t.Fatal(err)
	}
}
