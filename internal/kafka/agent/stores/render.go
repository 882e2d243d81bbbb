package stores

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Rendered is what the server is started with.
type Rendered struct {
	// Files are the PEM stores by name. Those of key stores hold private keys.
	Files Directory
	// Properties is the whole configuration of the server.
	Properties []byte
	// Roles is what the server will trust and present.
	Roles map[contract.Listener]contract.RoleReport
}

// nameDigits is how much of a digest stands in a file name: enough that no two
// stores of a node ever share a name.
const nameDigits = 32

// Render makes the stores and the configuration that refers to them. A store's
// name contains the digest of the certificates in it, in their order: other
// certificates always mean another name, so that a server can be told to load
// them and its configuration shows which it has.
func (m Matched) Render(storesDir string) Rendered {
	r := Rendered{Files: Directory{}, Roles: map[contract.Listener]contract.RoleReport{}}
	var properties bytes.Buffer
	properties.Write(m.ServerConfig)
	if !bytes.HasSuffix(m.ServerConfig, []byte("\n")) {
		properties.WriteByte('\n')
	}
	for _, l := range m.Listeners {
		key := fmt.Sprintf("%s-key-%s.pem", l.Name, digest(l.Identity.Chain))
		trust := fmt.Sprintf("%s-trust-%s.pem", l.Name, digest(l.Trusts))
		r.Files[key] = slices.Concat(l.Identity.Key.PEM(), pki.EncodeBundle(l.Identity.Chain...))
		r.Files[trust] = pki.EncodeBundle(l.Trusts...)
		r.Roles[l.Name] = Report(l.Identity, l.Trusts)
		writeStore(&properties, l.Name, "keystore", path.Join(storesDir, key))
		writeStore(&properties, l.Name, "truststore", path.Join(storesDir, trust))
	}
	r.Properties = properties.Bytes()
	return r
}

func writeStore(properties *bytes.Buffer, listener contract.Listener, store, location string) {
	fmt.Fprintf(properties, "listener.name.%s.ssl.%s.type=PEM\n", listener, store)
	fmt.Fprintf(properties, "listener.name.%s.ssl.%s.location=%s\n", listener, store, location)
}

func digest(certs []*x509.Certificate) string {
	sum := sha256.New()
	for _, cert := range certs {
		fingerprint := pki.FingerprintOf(cert)
		sum.Write(fingerprint[:])
	}
	return hex.EncodeToString(sum.Sum(nil))[:nameDigits]
}

// Report says what a role with the identity and the anchors presents and trusts.
func Report(identity Identity, trusts []*x509.Certificate) contract.RoleReport {
	report := contract.RoleReport{
		Trusts:   make([]string, 0, len(trusts)),
		Presents: identity.Fingerprint(),
		NotAfter: earliestEnd(identity.Chain),
	}
	for _, anchor := range trusts {
		report.Trusts = append(report.Trusts, pki.FingerprintOf(anchor).String())
	}
	slices.Sort(report.Trusts)
	return report
}

func earliestEnd(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	return end.UTC()
}
