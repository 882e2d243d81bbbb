package listenercert

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// Certificate is a certificate that a user brings for one listener
// (brokerCertChainAndKey).
type Certificate struct {
	// Listener is the name in the Kafka resource.
	Listener string
	// Secret is the name of the Secret; Stored is what was observed of it.
	Secret string
	Stored authority.Stored
	// CertificateKey and KeyKey are the keys inside the Secret.
	CertificateKey string
	KeyKey         string
	// Unread says of the keys that were not read why that is.
	Unread map[string]error
	// Names are all names under which brokers are advertised to clients, and Bootstrap those under which clients find one.
	Names, Bootstrap pki.SANs
}

// Checked is a certificate that can be presented.
type Checked struct {
	// Chain is the leaf and what is presented with it.
	Chain []*x509.Certificate
	Key   pki.PrivateKey
	// Certificates is the chain as it was stored.
	Certificates []byte
	// Doubts are what is odd about the chain, although clients accept it.
	Doubts []authority.Problem
	// Missing are the names of Bootstrap that the leaf does not cover.
	Missing []string
}

// End is when clients begin to reject what is presented: with the leaf or an issuer of the path, and not with a root, which
// clients have themselves, nor with what they do not need.
func (c Checked) End(now time.Time) time.Time {
	needed, _ := pki.Needed(c.Chain, now)
	isRoot := func(cert *x509.Certificate) bool { return pki.IssuedBy(cert, cert) }
	return pki.EarliestEnd(append(needed[:1:1], slices.DeleteFunc(slices.Clone(needed[1:]), isRoot)...))
}

// Overdue is when it should have been renewed: as long before its end as CAs are, but a quarter of a short life at most.
func (c Checked) Overdue(renewal time.Duration, now time.Time) time.Time {
	const part = 4
	end := c.End(now)
	return end.Add(-min(renewal, end.Sub(c.Chain[0].NotBefore)/part))
}

// Check looks for everything that would make clients reject the certificate or the
// server fail to start: presence, form, order of the chain, whether the key matches,
// validity, what clients verify, and that the names cover every advertised one. The error is an
// *authority.InvalidResourceError with all problems.
func Check(lc Certificate, now time.Time) (Checked, error) {
	c := check{lc: lc, now: now}
	if !lc.Stored.Exists {
		c.report("the Secret was not found", "create it, or change brokerCertChainAndKey.secretName")
		return Checked{}, &authority.InvalidResourceError{Problems: c.problems}
	}
	chain := c.readChain()
	key := c.readKey()
	if len(chain) > 0 {
		c.checkChain(chain)
	}
	if len(chain) > 0 && !key.IsZero() && !key.Matches(chain[0]) {
		c.report(lc.KeyKey+" does not belong to the first certificate of "+lc.CertificateKey, "put a matching certificate and key there")
	}
	if len(c.problems) > 0 {
		return Checked{}, &authority.InvalidResourceError{Problems: append(c.problems, c.doubts...)}
	}
	return Checked{Chain: chain, Key: key, Certificates: lc.Stored.Data[lc.CertificateKey], Doubts: c.doubts, Missing: pki.SANsOf(chain[0]).Uncovered(lc.Bootstrap)}, nil
}

// shorten is what can be done about an entry that is too long to be read.
const shorten = "leave there only the leaf and its issuers, or the key, or give fewer listeners certificates of their own"

type check struct {
	lc       Certificate
	now      time.Time
	problems []authority.Problem
	doubts   []authority.Problem
}

func (c *check) report(wrong, remedy string) {
	c.problems = append(c.problems, c.problem(wrong, remedy))
}

func (c *check) doubt(wrong, remedy string) { c.doubts = append(c.doubts, c.problem(wrong, remedy)) }

func (c *check) problem(wrong, remedy string) authority.Problem {
	return authority.Problem{Object: fmt.Sprintf("Secret %s (listener %s)", c.lc.Secret, c.lc.Listener), Wrong: wrong, Remedy: remedy}
}

func (c *check) readChain() []*x509.Certificate {
	data := c.lc.Stored.Data[c.lc.CertificateKey]
	if err := c.lc.Unread[c.lc.CertificateKey]; err != nil {
		c.report(c.lc.CertificateKey+": "+err.Error(), shorten)
		return nil
	}
	if len(data) == 0 {
		c.report("the key "+c.lc.CertificateKey+" is missing", "add the certificate, or change brokerCertChainAndKey.certificate")
		return nil
	}
	chain, err := pki.ParseChain(data)
	if err != nil {
		c.report(c.lc.CertificateKey+": "+err.Error(), "put the leaf there, followed by its issuers, in PEM")
		return nil
	}
	return chain
}

func (c *check) readKey() pki.PrivateKey {
	data := c.lc.Stored.Data[c.lc.KeyKey]
	if err := c.lc.Unread[c.lc.KeyKey]; err != nil {
		c.report(c.lc.KeyKey+": "+err.Error(), shorten)
		return pki.PrivateKey{}
	}
	if len(data) == 0 {
		c.report("the key "+c.lc.KeyKey+" is missing", "add the private key, or change brokerCertChainAndKey.key")
		return pki.PrivateKey{}
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		c.report(c.lc.KeyKey+": "+err.Error(), "put the private key there as unencrypted PKCS#8 in PEM")
		return pki.PrivateKey{}
	}
	return key
}

func (c *check) checkChain(chain []*x509.Certificate) {
	before := len(c.problems)
	if err := pki.CheckChainOrder(chain); err != nil {
		c.report(c.lc.CertificateKey+": "+err.Error(), "put the leaf first, followed by its issuers in order")
	}
	needed, needless := pki.Needed(chain, c.now)
	for _, cert := range needed {
		c.checkValidity(cert)
	}
	for _, cert := range needless {
		c.doubtValidity(cert)
	}
	if len(c.problems) == before {
		for _, problem := range pki.ServerProblems(needed, c.now) {
			c.report(c.lc.CertificateKey+": clients reject it: "+problem.Error(), "replace it with a chain that its PKI issues for TLS servers")
		}
	}
	if chain[0].IsCA {
		c.doubt(c.lc.CertificateKey+": the first certificate is a CA, so its key can sign certificates that clients trust", "replace it with one that is no CA")
	}
	if missing := pki.SANsOf(chain[0]).Uncovered(c.lc.Names); len(missing) > 0 {
		c.report(c.lc.CertificateKey+" does not cover the advertised names "+strings.Join(missing, ", "), "get a certificate with these subject alternative names")
	}
}

// doubtValidity names what clients do not need: they trust an issuer before it.
func (c *check) doubtValidity(cert *x509.Certificate) {
	if err := pki.CheckValidAt(cert, c.now); err != nil {
		c.doubt(c.lc.CertificateKey+": "+err.Error()+", and clients reject it that trust nothing before it", "remove it from the chain")
	}
}

func (c *check) checkValidity(cert *x509.Certificate) {
	err := pki.CheckValidAt(cert, c.now)
	if err == nil {
		return
	}
	c.report(c.lc.CertificateKey+": "+err.Error(), "replace it with a certificate that is valid now")
	if c.now.Before(cert.NotBefore) {
		c.problems[len(c.problems)-1].Until = cert.NotBefore
	}
}
