package authority

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Bundle is where a user says by which CAs the leaves of an outside issuer are verified.
type Bundle struct {
	// Secret and Entry name the PEM text.
	Secret, Entry string
	// Stored is the Secret with that entry alone; Unread says why the entry was not read.
	Stored Stored
	Unread error
	// Offered is the leaf that the issuer has issued last, followed by what is presented with it; nil without one.
	Offered []*x509.Certificate
}

// Upper are the CAs of the bundle that have signed another CA of it. Nodes do not trust them, but what they have signed may
// sign for others, too.
func (b *Bundle) Upper() []*x509.Certificate {
	certs, err := pki.ParseBundle(b.Text())
	if err != nil {
		return nil // a problem of its own
	}
	trusted := mounted(certs)
	return slices.DeleteFunc(certs, func(ca *x509.Certificate) bool { return contains(trusted, ca) })
}

// BundleIn are the CAs that a user names for an Outside authority, as the data of its certificate Secret has them: those of ca.crt
// but for what is kept under dated names.
func BundleIn(data map[string][]byte) []*x509.Certificate {
	certs, err := pki.ParseBundle(data[CertKey])
	if err != nil {
		return nil
	}
	outgoing := slices.Collect(maps.Values(datedIn(data)))
	return slices.DeleteFunc(certs, func(c *x509.Certificate) bool { return contains(outgoing, c) })
}

// Text is the PEM text of the bundle; nil without one that was read.
func (b *Bundle) Text() []byte { return b.Stored.Data[b.Entry] }

func (b *Bundle) object() string { return "Secret " + b.Secret }

// read returns the CAs of the bundle, each once, in the order of the text, and what of it nodes do not trust now.
func (b *Bundle) read(in Input) ([]*x509.Certificate, []Remark, *Problem) {
	certs, problem := b.parse(in)
	if problem != nil {
		return nil, nil, problem
	}
	var cas []*x509.Certificate
	var remarks []Remark
	for _, cert := range certs {
		if contains(cas, cert) {
			continue
		}
		cas = append(cas, cert)
		if wrong := pki.CheckValidAt(cert, in.Now); wrong != nil {
			remarks = append(remarks, Remark{Secret: b.Secret, Part: entryPart(b.Entry), Text: "nodes do not trust a CA of entry " + b.Entry + ": " + wrong.Error()})
		}
	}
	switch {
	case len(mountedAt(cas, in.Now)) > 0:
		return cas, remarks, nil
	case len(remarks) > 0:
		return nil, nil, b.problem(in, remarks[0].Text)
	default:
		return nil, nil, b.problem(in, "nodes trust no CA of entry "+b.Entry+", because each has signed another CA of it")
	}
}

// parse returns the certificates of the text, all of which are CAs.
func (b *Bundle) parse(in Input) ([]*x509.Certificate, *Problem) {
	switch {
	case !b.Stored.Exists:
		return nil, b.problem(in, in.Names.Bundle+" refers to it, but the Secret was not found")
	case b.Unread != nil:
		return nil, b.problem(in, b.Entry+": "+b.Unread.Error())
	case len(b.Text()) == 0:
		return nil, b.problem(in, "entry "+b.Entry+" is missing or empty")
	}
	certs, err := pki.ParseBundle(b.Text())
	if err != nil {
		return nil, b.problem(in, b.Entry+": "+err.Error())
	}
	if len(certs) > maxBundled {
		return nil, b.problem(in, fmt.Sprintf("%s has %d certificates: at most %d are possible", b.Entry, len(certs), maxBundled))
	}
	for i, cert := range certs {
		if err := pki.CheckCA(cert); err != nil {
			return nil, b.problem(in, fmt.Sprintf("%s: certificate %d is not a CA: %s", b.Entry, i+1, err))
		}
	}
	return certs, nil
}

func (b *Bundle) problem(in Input, wrong string) *Problem {
	return &Problem{
		Object: b.object(), Wrong: wrong,
		Remedy: "put the CA certificates of the issuer into entry " + b.Entry + " as PEM, or change " + in.Names.Bundle,
	}
}

// maxBundled is how many CAs nodes are given at most: each is tried with every certificate that is presented to them.
const maxBundled = 32

// mountedAt are the CAs of a bundle that nodes trust at a time. What a CA has signed that is not valid then is left out, too.
func mountedAt(bundle []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(mounted(bundle), func(ca *x509.Certificate) bool { return pki.CheckValidAt(ca, now) != nil })
}

// mounted are the CAs of a bundle that nodes trust while they are valid. One that has signed another CA of the bundle is not
// among them: it may have signed those of strangers, too.
func mounted(bundle []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(bundle), func(ca *x509.Certificate) bool {
		return slices.ContainsFunc(bundle, func(other *x509.Certificate) bool {
			return pki.KeyIDOf(other) != pki.KeyIDOf(ca) && pki.IssuedBy(other, ca)
		})
	})
}

// hashOf is the SHA-256, in lower-case hex, over the sorted DER of certificates.
func hashOf(certs []*x509.Certificate) string {
	ders := make([]string, 0, len(certs))
	for _, cert := range certs {
		ders = append(ders, string(cert.Raw))
	}
	slices.Sort(ders)
	digest := sha256.New()
	for _, der := range ders {
		digest.Write([]byte(der))
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// unexpired are those of certificates that last at a time, each once.
func unexpired(certs []*x509.Certificate, now time.Time) []*x509.Certificate {
	var last []*x509.Certificate
	for _, cert := range certs {
		if now.Before(cert.NotAfter) && !contains(last, cert) {
			last = append(last, cert)
		}
	}
	return last
}
