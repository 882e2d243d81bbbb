package listenercert_test

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// host is the only name of the listeners whose certificates clients judge.
const host = "kafka.example.org"

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// change is how a certificate differs from a good one.
type change func(*x509.Certificate)

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	return pkitest.Signer(tb, elliptic.P256())
}

// sign is the certificate of a template by an issuer, or by itself where there is none.
func sign(tb testing.TB, issuer identity, key crypto.Signer, tmpl *x509.Certificate, changes ...change) identity {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	tmpl.SerialNumber, tmpl.BasicConstraintsValid = serial, true
	tmpl.NotBefore, tmpl.NotAfter = noon().Add(-10*day), noon().Add(90*day)
	for _, change := range changes {
		change(tmpl)
	}
	if issuer.cert == nil {
		issuer = identity{tmpl, key}
	}
	cert := pkitest.Signed(tb, tmpl, issuer.cert, key.Public(), issuer.key)
	return identity{cert, key}
}

func caBelow(tb testing.TB, issuer identity, name string, changes ...change) identity {
	tb.Helper()
	return caOf(tb, issuer, newKey(tb), name, changes...)
}

func caOf(tb testing.TB, issuer identity, key crypto.Signer, name string, changes ...change) identity {
	tb.Helper()
	return sign(tb, issuer, key, &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"Example"}, CommonName: name}, IsCA: true, MaxPathLen: -1, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, changes...)
}

func leafBelow(tb testing.TB, issuer identity, changes ...change) identity {
	tb.Helper()
	return leafOf(tb, issuer, newKey(tb), changes...)
}

func leafOf(tb testing.TB, issuer identity, key crypto.Signer, changes ...change) identity {
	tb.Helper()
	return sign(tb, issuer, key, &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"Example"}, CommonName: host}, DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, changes...)
}

// presented is what a listener presents, and what the client trusts.
type presented struct {
	chain  []identity
	anchor *x509.Certificate
}

// certificate is that of a listener with this chain.
func (p presented) certificate(tb testing.TB) listenercert.Certificate {
	tb.Helper()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(p.chain[0].key)
	if err != nil {
		tb.Fatal(err)
	}
	return listenercert.Certificate{
		Listener: "tls", Secret: "mine", CertificateKey: "tls.crt", KeyKey: "tls.key", Names: sans(tb, host),
		Stored: authority.Stored{Exists: true, Data: map[string][]byte{
			"tls.crt": pki.EncodeBundle(certificates(p.chain)...),
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		}},
	}
}

func certificates(chain []identity) []*x509.Certificate {
	certs := make([]*x509.Certificate, 0, len(chain))
	for _, id := range chain {
		certs = append(certs, id.cert)
	}
	return certs
}

// threeLevels is a leaf below an issuing CA below a root, each with its changes, and the root is presented, too.
func threeLevels(leaf, issuing, root change) func(tb testing.TB) presented {
	return func(tb testing.TB) presented {
		tb.Helper()
		top := caBelow(tb, identity{}, "root", root)
		middle := caBelow(tb, top, "issuing", issuing)
		return presented{[]identity{leafBelow(tb, middle, leaf), middle, top}, top.cert}
	}
}

func asItIs(*x509.Certificate) {}

func critical(id asn1.ObjectIdentifier, value []byte, others ...change) change {
	return func(c *x509.Certificate) {
		for _, change := range others {
			change(c)
		}
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: id, Critical: true, Value: value})
	}
}

func unknownExtension() change {
	return critical(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 55555, 1}, []byte{5, 0})
}

// within limits the directory names below an issuer to those of an organization.
func within(organization string) change {
	name, _ := asn1.Marshal(pkix.Name{Organization: []string{organization}}.ToRDNSequence())
	general := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: name}
	encoded, _ := asn1.Marshal(struct {
		Permitted []struct{ Base asn1.RawValue } `asn1:"tag:0"`
	}{[]struct{ Base asn1.RawValue }{{general}}})
	return critical(asn1.ObjectIdentifier{2, 5, 29, 30}, encoded)
}

func usages(usage x509.KeyUsage) change { return func(c *x509.Certificate) { c.KeyUsage = usage } }

func purposes(list ...x509.ExtKeyUsage) change {
	return func(c *x509.Certificate) { c.ExtKeyUsage = list }
}

func netscapeType(bits byte) change {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{2, 16, 840, 1, 113730, 1, 1}, Value: []byte{3, 2, 0, bits}})
	}
}

func below(domain string) change {
	return func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{domain}, true
	}
}

func named(name string) change { return func(c *x509.Certificate) { c.DNSNames = []string{name} } }

func mailOf(address string) change {
	return func(c *x509.Certificate) {
		mail := asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte(address)}
		c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: mail}}
	}
}

func mailBelow(domain string) change {
	return func(c *x509.Certificate) {
		c.PermittedEmailAddresses, c.PermittedDNSDomainsCritical = []string{domain}, true
	}
}

func pathLength(limit int) change {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = limit, limit == 0 }
}

func isCA(c *x509.Certificate) { c.IsCA, c.MaxPathLen = true, -1 }

func bySHA1(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 }

// selfSigned is a leaf that clients trust itself.
func selfSigned(changes ...change) func(tb testing.TB) presented {
	return func(tb testing.TB) presented {
		tb.Helper()
		leaf := leafBelow(tb, identity{}, changes...)
		return presented{[]identity{leaf}, leaf.cert}
	}
}

// withoutRoot does not present the root.
func withoutRoot(made func(tb testing.TB) presented) func(tb testing.TB) presented {
	return func(tb testing.TB) presented {
		tb.Helper()
		p := made(tb)
		p.chain = p.chain[:len(p.chain)-1]
		return p
	}
}

// keyed has one key of another kind: that of the leaf, of the issuing CA, or of the root.
func keyed(level int, key func(tb testing.TB) crypto.Signer) func(tb testing.TB) presented {
	return func(tb testing.TB) presented {
		tb.Helper()
		keys := []crypto.Signer{newKey(tb), newKey(tb), newKey(tb)}
		keys[level] = key(tb)
		top := caOf(tb, identity{}, keys[2], "root")
		middle := caOf(tb, top, keys[1], "issuing")
		return presented{[]identity{leafOf(tb, middle, keys[0]), middle, top}, top.cert}
	}
}

func ofBits(bits int) func(tb testing.TB) crypto.Signer {
	return func(tb testing.TB) crypto.Signer {
		tb.Helper()
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			tb.Fatal(err)
		}
		return key
	}
}

func onCurve(curve elliptic.Curve) func(tb testing.TB) crypto.Signer {
	return func(tb testing.TB) crypto.Signer { tb.Helper(); return pkitest.Signer(tb, curve) }
}

// renamedKey names another key identifier of the issuing CA than that has.
func renamedKey(tb testing.TB) presented {
	tb.Helper()
	top := caBelow(tb, identity{}, "root")
	middle := caBelow(tb, top, "issuing")
	other := *middle.cert
	other.SubjectKeyId = []byte{1, 2, 3}
	return presented{[]identity{leafBelow(tb, identity{&other, middle.key}), middle, top}, top.cert}
}

// renewedRoot is a root with path length 1 whose certificate of before follows the present one.
func renewedRoot(tb testing.TB) presented {
	tb.Helper()
	key := newKey(tb)
	before, now := caOf(tb, identity{}, key, "root", pathLength(1)), caOf(tb, identity{}, key, "root", pathLength(1))
	issuing := caBelow(tb, now, "issuing")
	return presented{[]identity{leafBelow(tb, issuing), issuing, now, before}, before.cert}
}

// accepts is what clients do with a chain whose last certificate they trust.
type accepts struct{ openSSL, jvm bool }

// What the JVM (17.0.15, PKIX, TLS 1.2 and 1.3) does was tried once. What OpenSSL does is tried each time.
func TestAChainIsTakenIfAllClientsAcceptIt(t *testing.T) {
	t.Parallel()
	both, none, openSSL, jvm := accepts{true, true}, accepts{}, accepts{openSSL: true}, accepts{jvm: true}
	for name, c := range map[string]struct {
		made func(tb testing.TB) presented
		want accepts
	}{
		"a usual chain":                               {threeLevels(asItIs, asItIs, asItIs), both},
		"a leaf without key usage":                    {threeLevels(usages(0), asItIs, asItIs), both},
		"a leaf that only enciphers keys":             {threeLevels(usages(x509.KeyUsageKeyEncipherment), asItIs, asItIs), openSSL},
		"a leaf that only agrees on keys":             {threeLevels(usages(x509.KeyUsageKeyAgreement), asItIs, asItIs), openSSL},
		"a leaf that only signs contracts":            {threeLevels(usages(x509.KeyUsageContentCommitment), asItIs, asItIs), none},
		"a leaf with an unknown extension":            {threeLevels(unknownExtension(), asItIs, asItIs), none},
		"an issuer with an unknown extension":         {threeLevels(asItIs, unknownExtension(), asItIs), none},
		"a root with an unknown extension":            {threeLevels(asItIs, asItIs, unknownExtension()), jvm},
		"critical distribution points":                {threeLevels(critical(distributionPoints()), asItIs, asItIs), openSSL},
		"critical policies":                           {threeLevels(critical(asn1.ObjectIdentifier{2, 5, 29, 32}, []byte{0x30, 6, 0x30, 4, 6, 2, 0x2a, 3}), asItIs, asItIs), both},
		"policies that are required and lack":         {threeLevels(asItIs, critical(asn1.ObjectIdentifier{2, 5, 29, 36}, []byte{0x30, 3, 0x80, 1, 0}), asItIs), openSSL},
		"a name within constraints":                   {threeLevels(asItIs, below("example.org"), asItIs), both},
		"a name outside of constraints":               {threeLevels(asItIs, below("other.org"), asItIs), none},
		"a name outside of those of the root":         {threeLevels(asItIs, asItIs, below("other.org")), jvm},
		"a subject within constraints":                {threeLevels(asItIs, within("EXAMPLE"), asItIs), both},
		"a subject outside of constraints":            {threeLevels(asItIs, within("Another"), asItIs), none},
		"a path length that suffices":                 {threeLevels(asItIs, pathLength(0), pathLength(1)), both},
		"a path length that is exceeded":              {threeLevels(asItIs, asItIs, pathLength(0)), jvm},
		"a root beside its earlier certificate":       {renewedRoot, both},
		"an issuer for clients":                       {threeLevels(asItIs, purposes(x509.ExtKeyUsageClientAuth), asItIs), jvm},
		"an issuer for any purpose":                   {threeLevels(asItIs, purposes(x509.ExtKeyUsageAny), asItIs), jvm},
		"an issuer for servers":                       {threeLevels(asItIs, purposes(x509.ExtKeyUsageServerAuth), asItIs), both},
		"a root for clients":                          {threeLevels(asItIs, asItIs, purposes(x509.ExtKeyUsageClientAuth)), jvm},
		"a leaf for clients":                          {threeLevels(purposes(x509.ExtKeyUsageClientAuth), asItIs, asItIs), none},
		"a leaf for any purpose":                      {threeLevels(purposes(x509.ExtKeyUsageAny), asItIs, asItIs), jvm},
		"a leaf without purpose":                      {threeLevels(purposes(), asItIs, asItIs), both},
		"a Netscape certificate for clients":          {threeLevels(netscapeType(0x80), asItIs, asItIs), none},
		"a Netscape certificate for servers":          {threeLevels(netscapeType(0x40), asItIs, asItIs), both},
		"an issuer that is no CA":                     {threeLevels(asItIs, func(c *x509.Certificate) { c.IsCA = false }, asItIs), none},
		"an issuer that may not sign":                 {threeLevels(asItIs, usages(x509.KeyUsageDigitalSignature), asItIs), none},
		"a leaf that is a CA":                         {threeLevels(isCA, asItIs, asItIs), both},
		"another key identifier":                      {renamedKey, jvm},
		"a leaf of RSA 1024":                          {keyed(0, ofBits(1024)), jvm},
		"an issuer of RSA 1024":                       {keyed(1, ofBits(1024)), jvm},
		"a root of RSA 1024":                          {keyed(2, ofBits(1024)), jvm},
		"a leaf of RSA 2047":                          {keyed(0, ofBits(2047)), both},
		"an issuer of RSA 2048":                       {keyed(1, ofBits(2048)), both},
		"a leaf of P-521":                             {keyed(0, onCurve(elliptic.P521())), both},
		"a leaf of P-224, with which no broker signs": {keyed(0, onCurve(elliptic.P224())), openSSL},
		"a leaf that is signed with SHA-1":            {threeLevels(bySHA1, asItIs, asItIs), jvm},
		"an issuer that is signed with SHA-1":         {threeLevels(asItIs, bySHA1, asItIs), jvm},
		"a root that is signed with SHA-1":            {threeLevels(asItIs, asItIs, bySHA1), both},
		"a leaf whose key usage names nothing":        {threeLevels(critical(asn1.ObjectIdentifier{2, 5, 29, 15}, []byte{3, 1, 0}, usages(0)), asItIs, asItIs), none},
		"an issuer of P-224":                          {keyed(1, onCurve(elliptic.P224())), openSSL},
		"a root of P-224":                             {keyed(2, onCurve(elliptic.P224())), openSSL},
		"an issuer signed with SHA-1, and no root":    {withoutRoot(threeLevels(asItIs, bySHA1, asItIs)), jvm},
		"a name that ends in a dot":                   {threeLevels(named(host+"."), asItIs, asItIs), none},
		"a mail address within constraints":           {threeLevels(mailOf("broker@example.org"), mailBelow("example.org"), asItIs), both},
		"a mail address outside of constraints":       {threeLevels(mailOf("broker@other.org"), mailBelow("example.org"), asItIs), jvm},
		"a mail address that nothing limits":          {threeLevels(mailOf("broker"), below("example.org"), asItIs), both},
		"a self-signed leaf":                          {selfSigned(), both},
		"a self-signed leaf that only enciphers keys": {selfSigned(usages(x509.KeyUsageKeyEncipherment)), both},
		"a self-signed leaf that is a CA":             {selfSigned(isCA, usages(0), purposes()), both},
		"a self-signed leaf that only signs others":   {selfSigned(isCA, usages(x509.KeyUsageCertSign)), jvm},
		"a self-signed leaf, unknown extension":       {selfSigned(unknownExtension()), jvm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.made(t)

			checked, err := listenercert.Check(p.certificate(t), noon())

			if said := p.openSSL(t); (said == "") != c.want.openSSL {
				t.Errorf("OpenSSL says %q", said)
			}
			if (err == nil) != (c.want == both) {
				t.Errorf("clients do %+v, Keyturn says %v", c.want, err)
			}
			if err == nil && (len(checked.Doubts) > 0) != p.chain[0].cert.IsCA {
				t.Errorf("doubts are %q", checked.Doubts)
			}
		})
	}
}

func until(at time.Time) change { return func(c *x509.Certificate) { c.NotAfter = at } }

// Clients that trust the present root build their path to it, whatever else is presented. What the JVM does was tried once.
func TestWhatNoPathNeedsMayHaveExpired(t *testing.T) {
	t.Parallel()
	ended := until(noon().Add(-day))
	key := newKey(t)
	root := caOf(t, identity{}, key, "root")
	issuing := caBelow(t, root, "issuing")
	leaf := leafBelow(t, issuing)
	policy := caBelow(t, root, "policy", ended)
	belowPolicy := caBelow(t, policy, "issuing")
	for name, c := range map[string]struct {
		chain   []identity
		accepts bool
		says    string
	}{
		"what leads to the root":           {[]identity{leafBelow(t, belowPolicy), belowPolicy, policy, root}, false, `"CN=policy,O=Example" expired`},
		"an older version of the root":     {[]identity{leaf, issuing, caOf(t, identity{}, key, "root", ended)}, true, "remove it from the chain"},
		"a root that an expired one signs": {[]identity{leaf, issuing, caOf(t, caBelow(t, identity{}, "gone", ended), key, "root", ended)}, true, "remove it from the chain"},
		"an older version before the root": {[]identity{leafBelow(t, root), caOf(t, identity{}, key, "root", ended), root}, true, "remove it from the chain"},
		"an older version of what signs":   {[]identity{leaf, issuing, root, caOf(t, identity{}, key, "root", ended), root}, true, "remove it from the chain"},
		"the issuer":                       {[]identity{leaf, caOf(t, root, issuing.key, "issuing", ended)}, false, `"CN=issuing,O=Example" expired`},
		"the leaf":                         {[]identity{leafBelow(t, issuing, ended), issuing}, false, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := presented{c.chain, root.cert}

			checked, err := listenercert.Check(p.certificate(t), noon())

			if said := p.openSSL(t); (said == "") != c.accepts || (err == nil) != c.accepts {
				t.Errorf("OpenSSL says %q, Keyturn %v", said, err)
			}
			if said := fmt.Sprint(err, checked.Doubts); !strings.Contains(said, c.says) {
				t.Errorf("it is said %q, want %q", said, c.says)
			}
			if c.accepts && !checked.End(noon()).After(noon()) {
				t.Errorf("clients are said to reject it since %s", checked.End(noon()))
			}
		})
	}
}

func TestWhatIsPresentedEndsWithTheFirstCertificateOfItsPath(t *testing.T) {
	t.Parallel()
	soon, late := noon().Add(day), noon().Add(90*day)
	path := func(leaf, issuing, policy, root time.Time) []identity {
		top := caBelow(t, identity{}, "root", until(root))
		middle := caBelow(t, top, "policy", until(policy))
		below := caBelow(t, middle, "issuing", until(issuing))
		return []identity{leafBelow(t, below, until(leaf)), below, middle, top}
	}
	for name, c := range map[string]struct {
		chain []identity
		end   time.Time
	}{
		"the leaf":              {path(soon, late, late, late), soon},
		"the CA that issues":    {path(late, soon, late, late), soon},
		"a CA above it":         {path(late, late, soon, late), soon},
		"a CA above it, alone":  {path(late, late, soon, late)[:3], soon},
		"a root clients have":   {path(late, late, late, soon), late},
		"a self-signed one":     {[]identity{leafBelow(t, identity{}, until(soon))}, soon},
		"one of a usual length": {path(late, late, late, late), late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked, err := listenercert.Check(presented{chain: c.chain}.certificate(t), noon())
			if end := checked.End(noon()); err != nil || !end.Equal(c.end) {
				t.Errorf("%v, clients are said to reject it at %s, want %s", err, end, c.end)
			}
		})
	}
}

func distributionPoints() (asn1.ObjectIdentifier, []byte) {
	const uri = "http://x"
	value := append([]byte{0x30, 0x10, 0x30, 0x0e, 0xa0, 0x0c, 0xa0, 0x0a, 0x86, byte(len(uri))}, uri...)
	return asn1.ObjectIdentifier{2, 5, 29, 31}, value
}

// openSSL is what a client with OpenSSL says as Debian and others configure it, nothing if it accepts the chain.
func (p presented) openSSL(tb testing.TB) string {
	tb.Helper()
	file := func(name string, certs ...*x509.Certificate) string {
		path := filepath.Join(tb.TempDir(), name)
		if err := os.WriteFile(path, pki.EncodeBundle(certs...), 0o600); err != nil {
			tb.Fatal(err)
		}
		return path
	}
	arguments := []string{
		"verify", "-partial_chain", "-auth_level", "2", "-purpose", "sslserver", "-verify_hostname", host,
		"-attime", strconv.FormatInt(noon().Unix(), 10), "-CAfile", file("anchor", p.anchor),
	}
	if len(p.chain) > 1 {
		arguments = append(arguments, "-untrusted", file("issuers", certificates(p.chain[1:])...))
	}
	said, err := exec.CommandContext(tb.Context(), "openssl", append(arguments, file("leaf", p.chain[0].cert))...).CombinedOutput()
	if _, isVerdict := errors.AsType[*exec.ExitError](err); err != nil && !isVerdict {
		tb.Fatalf("running openssl: %v", err)
	}
	if err != nil {
		return string(said)
	}
	return ""
}
