package keysearch_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/e2e/harness/keysearch"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func now() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// forms are those in which a key may be stored or said.
func forms(t *testing.T, der []byte, label string) map[string][]byte {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
	encode := func(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data)) }
	quoted, err := json.Marshal(map[string]string{"key": string(text)})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(encode(text)); err != nil || writer.Close() != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"DER":                       der,
		"DER in a database":         append(append(bytes.Repeat([]byte{0x30, 0}, 500), der...), 0x30, 0x82),
		"PEM":                       text,
		"PEM in YAML":               []byte("key: |\n  " + strings.ReplaceAll(string(text), "\n", "\n  ")),
		"PEM in JSON":               quoted,
		"PEM in a log":              append([]byte("level=info msg=\"starting with\" key="), text...),
		"PEM in a Secret":           encode(text),
		"an annotation in a Secret": encode(encode(text)),
		"base64":                    encode(der),
		"base64 in other text":      append([]byte("key"), encode(der)...),
		"base64 for URLs":           []byte(base64.RawURLEncoding.EncodeToString(der)),
		"hex":                       []byte(hex.EncodeToString(der)),
		"a Helm release":            encode(encode(zipped.Bytes())),
	}
}

func TestAPrivateKeyIsFoundInWhateverFormItIsPlanted(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]byte{"EC PRIVATE KEY": sec1, "RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(large)}
	ids := map[string]string{"EC PRIVATE KEY": idOf(t, ec), "RSA PRIVATE KEY": idOf(t, large)}
	for name, key := range map[string]crypto.Signer{"PRIVATE KEY, ECDSA": ec, "PRIVATE KEY, Ed25519": edwards, "PRIVATE KEY, RSA": large} {
		if keys[name], err = x509.MarshalPKCS8PrivateKey(key); err != nil {
			t.Fatal(err)
		}
		ids[name] = idOf(t, key)
	}
	for label, der := range keys {
		kind, _, _ := strings.Cut(label, ",")
		for form, data := range forms(t, der, kind) {
			search := keysearch.New(regexp.MustCompile(`^ours`))
			search.Look("ours", data)
			if diff := cmp.Diff([]string{"ours has the private key of " + ids[label]}, search.Problems()); diff != "" {
				t.Errorf("%s in the form %s (-want +got):\n%s", label, form, diff)
			}
		}
	}
	public, err := x509.MarshalPKIXPublicKey(&ec.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for form, data := range forms(t, public, "PUBLIC KEY") {
		search := keysearch.New(regexp.MustCompile(`^ours`))
		search.Look("ours", data)
		if len(search.Problems()) != 0 {
			t.Errorf("a public key in the form %s: %v", form, search.Problems())
		}
	}
}

func TestAKeyIsAProblemWhereNoRuleAllowsIt(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "ca", now())
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "member"}, Usages: pki.BothUsages(), Validity: time.Hour, Now: now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pki.EncodeBundle(leaf))
	stranger, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	const member, unknown = "CN=member, issued by CN=ca,O=example", "a key that cannot be read"
	for name, c := range map[string]struct {
		looks map[string]any
		want  []string
	}{
		"none": {map[string]any{"ours": certificate}, nil},
		"a member's key in an annotation of its pod": {
			map[string]any{"ours": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": string(key.PEM())}}}, "ours too": certificate},
			[]string{"ours.metadata.annotations.a has the private key of " + member},
		},
		"a member's key in a list": {
			map[string]any{"ours": map[string]any{"list": []any{"x", string(key.PEM())}}, "ours too": certificate},
			[]string{"ours.list[] has the private key of " + member},
		},
		"a member's key in two places": {
			map[string]any{"ours/1": string(key.PEM()), "ours/2": string(key.PEM()), "ours": certificate},
			[]string{"ours/1 has the private key of " + member, "ours/2 has the private key of " + member},
		},
		"a member's key in a namespace of others": {
			map[string]any{"theirs": string(key.PEM()), "ours": certificate},
			[]string{"theirs has the private key of " + member},
		},
		"a member's key where the CA's may be": {
			map[string]any{"ours/ca.key": string(key.PEM()), "ours": certificate},
			[]string{"ours/ca.key has the private key of " + member},
		},
		"the key of others in their namespace": {map[string]any{"theirs": string(stranger.PEM()), "ours": certificate}, nil},
		"the CA's key where it may be": {
			map[string]any{"ours/ca.key": string(ca.Key().PEM()), "ours": string(pki.EncodeBundle(ca.Certificate()))}, nil,
		},
		"a key without a certificate where the CA's may be": {
			map[string]any{"ours/ca.key": string(stranger.PEM())}, []string{"ours/ca.key has the private key of " + idOf(t, stranger.Signer())},
		},
		"the CA's key elsewhere": {
			map[string]any{"ours/tls.key": string(ca.Key().PEM()), "ours": string(pki.EncodeBundle(ca.Certificate()))},
			[]string{"ours/tls.key has the private key of CN=ca,O=example, issued by CN=ca,O=example"},
		},
		"an encrypted key": {
			map[string]any{"ours": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"},
			[]string{"ours has the private key of " + unknown},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			search := keysearch.New(regexp.MustCompile(`^ours`), keysearch.Rule{
				Place: regexp.MustCompile(`^ours/ca\.key$`), Of: func(c *x509.Certificate) bool { return c.IsCA },
			})
			for place, value := range c.looks {
				search.LookInto(place, value)
			}
			if diff := cmp.Diff(c.want, search.Problems()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKeyOfAnIssuedCertificateThatIsGoneIsAProblemAnywhere(t *testing.T) {
	t.Parallel()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	search := keysearch.New(regexp.MustCompile(`^ours`))
	search.Issued(keysearch.KeyID(idOf(t, key.Signer())))
	search.Look("theirs", key.PEM())
	if problems := search.Problems(); len(problems) != 1 || search.Certificates() != 1 {
		t.Errorf("the problems are %v", problems)
	}
}

func idOf(t *testing.T, key crypto.Signer) string {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}
