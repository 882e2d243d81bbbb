package enroll_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func newKey(t *testing.T) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// requestOf is what a pod asks with for a key: everything besides the key is made up.
func requestOf(t *testing.T, key pki.PrivateKey) string {
	t.Helper()
	return encode(request(t, key.Signer()))
}

func request(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	return pkitest.Request(t, key, contract.OperatorOrganization, "other.example.com", netip.AddrFrom4([4]byte{10, 0, 0, 9}))
}

func encode(der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// asked is a pod that has asked for its certificate of the peer plane with a key.
func asked(t *testing.T, key pki.PrivateKey) enroll.Input {
	t.Helper()
	sans, err := pki.NewSANs("my-cluster-0.my-cluster-peer.etcd.svc", "10.0.0.7")
	if err != nil {
		t.Fatal(err)
	}
	return enroll.Input{
		Pod:   enroll.Pod{Name: "my-cluster-0", UID: "a", Recorded: "a", HasAddress: true},
		Plane: contract.PeerPlane, Request: requestOf(t, key), IsAttested: true,
		SANs: sans, Usages: pki.BothUsages(), Validity: 72 * time.Hour,
		CA: pkitest.CA(t, "peer-ca", noon()), Now: noon(),
	}
}

func signed(t *testing.T, in enroll.Input) enroll.Signed {
	t.Helper()
	outcome, isSigned := enroll.Decide(in).(enroll.Signed)
	if !isSigned {
		t.Fatalf("got %#v, want a certificate", enroll.Decide(in))
	}
	return outcome
}

func TestNothingIsTakenFromARequestButItsKey(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in := asked(t, key)
	chain, err := enroll.Chain(signed(t, in).Answer)
	if err != nil {
		t.Fatal(err)
	}
	leaf := chain[0]
	switch {
	case !key.Matches(leaf):
		t.Error("the certificate is of another key")
	case leaf.Subject.String() != "CN=my-cluster-0":
		t.Errorf("the subject is %s", leaf.Subject)
	case !pki.SANsOf(leaf).Equal(in.SANs):
		t.Errorf("the names are %v", pki.SANsOf(leaf))
	case leaf.IsCA || len(leaf.ExtKeyUsage) != 2:
		t.Errorf("the certificate is a CA: %t, and has usages %v", leaf.IsCA, leaf.ExtKeyUsage)
	case !leaf.NotBefore.Equal(noon().Add(-15*time.Minute)) && !leaf.NotBefore.Equal(in.CA.Certificate().NotBefore):
		t.Errorf("it is valid from %s", leaf.NotBefore)
	case !leaf.NotAfter.Equal(noon().Add(72 * time.Hour)):
		t.Errorf("it is valid until %s", leaf.NotAfter)
	}
	if err := pki.Verify(chain, []*x509.Certificate{in.CA.Certificate()}, noon(), pki.BothUsages()...); err != nil {
		t.Error(err)
	}
}

func TestARequestInDERIsTaken(t *testing.T) {
	t.Parallel()
	in := asked(t, newKey(t))
	in.Request = base64.StdEncoding.EncodeToString(request(t, newKey(t).Signer()))
	signed(t, in)
}

func TestBadRequestsAreDenied(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	broken := request(t, key.Signer())
	broken[len(broken)-1]++
	sec1, err := x509.MarshalECPrivateKey(old)
	if err != nil {
		t.Fatal(err)
	}
	id := key.ID()
	long, _ := pem.Decode(pkitest.OversizedKey(t, 40_000))
	for name, test := range map[string]struct {
		change func(in *enroll.Input)
		want   enroll.Cause
	}{
		"a text above 64 KiB":            {func(in *enroll.Input) { in.Request = strings.Repeat("A", 64<<10+1) }, enroll.TooLong},
		"no base64":                      {func(in *enroll.Input) { in.Request = "§" }, enroll.NotBase64},
		"no request":                     {func(in *enroll.Input) { in.Request = "aGVsbG8=" }, enroll.NotARequest},
		"two requests":                   {func(in *enroll.Input) { in.Request = twice(t, in.Request) }, enroll.NotARequest},
		"a broken signature":             {func(in *enroll.Input) { in.Request = encode(broken) }, enroll.NotARequest},
		"a private key":                  {func(in *enroll.Input) { in.Request = base64.StdEncoding.EncodeToString(key.PEM()) }, enroll.PrivateKey},
		"a private key as it is":         {func(in *enroll.Input) { in.Request = string(key.PEM()) }, enroll.PrivateKey},
		"a private key in DER":           {func(in *enroll.Input) { in.Request = base64.StdEncoding.EncodeToString(sec1) }, enroll.PrivateKey},
		"a private key beside a request": {func(in *enroll.Input) { in.Request = with(t, in.Request, key.PEM()) }, enroll.PrivateKey},
		"a private key of 40,000 bits":   {func(in *enroll.Input) { in.Request = base64.StdEncoding.EncodeToString(long.Bytes) }, enroll.NotARequest},
		"a short RSA key":                {func(in *enroll.Input) { in.Request = encode(request(t, short)) }, enroll.WeakKey},
		"a short curve":                  {func(in *enroll.Input) { in.Request = encode(request(t, old)) }, enroll.WeakKey},
		"an algorithm etcd lacks":        {func(in *enroll.Input) { in.Request = encode(request(t, edwards)) }, enroll.NotARequest},
		"the key of the other plane":     {func(in *enroll.Input) { in.Other = requestOf(t, key) }, enroll.KeyOfOtherPlane},
		"the key of the other plane before": {func(in *enroll.Input) {
			in.Ledger = enroll.Ledger{"1": {SPKI: id.String(), PodUID: "a", Plane: contract.ClientPlane}}
		}, enroll.KeyOfOtherPlane},
		"the key of another pod": {func(in *enroll.Input) {
			in.Ledger = enroll.Ledger{"1": {SPKI: id.String(), PodUID: "b", Plane: contract.PeerPlane}}
		}, enroll.KeyOfOtherPod},
		"one request for both planes": {func(in *enroll.Input) { in.Other, in.IsShared = in.Request, true }, enroll.KeyOfOtherPlane},
		"a shared key of another pod": {func(in *enroll.Input) {
			in.IsShared, in.MayShare = true, true
			in.Ledger = enroll.Ledger{"1": {SPKI: id.String(), PodUID: "b", Plane: contract.ClientPlane}}
		}, enroll.KeyOfOtherPod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, key)
			test.change(&in)
			denied, isDenied := enroll.Decide(in).(enroll.Denied)
			if !isDenied || denied.Cause != test.want || denied.Detail == "" {
				t.Fatalf("got %#v, want %s", enroll.Decide(in), test.want)
			}
			if strings.Contains(denied.Detail, "MII") || len(denied.Detail) > 300 {
				t.Errorf("the detail quotes the request: %s", denied.Detail)
			}
		})
	}
}

func twice(t *testing.T, request string) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(request)
	if err != nil {
		t.Fatal(err)
	}
	return with(t, request, text)
}

func with(t *testing.T, request string, more []byte) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(request)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(append(text, more...))
}

func TestRequestsAreHeldUntilThePodIsKnown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(in *enroll.Input)
		want   enroll.Cause
	}{
		"nothing asked":                {func(in *enroll.Input) { in.Request = "" }, enroll.NothingAsked},
		"a pod that was not created":   {func(in *enroll.Input) { in.Pod.Recorded = "b" }, enroll.UnknownPod},
		"a pod that is not recorded":   {func(in *enroll.Input) { in.Pod.Recorded = "" }, enroll.UnknownPod},
		"a pod without UID or record":  {func(in *enroll.Input) { in.Pod.UID, in.Pod.Recorded = "", "" }, enroll.UnknownPod},
		"a pod that is being deleted":  {func(in *enroll.Input) { in.Pod.IsEnding = true }, enroll.PodEnding},
		"a pod without an address":     {func(in *enroll.Input) { in.Pod.HasAddress = false }, enroll.NoAddress},
		"a CA without a key":           {func(in *enroll.Input) { in.CA = pki.Authority{} }, enroll.CANotReady},
		"a request of anybody":         {func(in *enroll.Input) { in.IsAttested = false }, enroll.NotAttested},
		"a CA that has expired":        {func(in *enroll.Input) { in.Now = noon().AddDate(2, 0, 0) }, enroll.CannotIssue},
		"a foreign pod with a bad key": {func(in *enroll.Input) { in.Pod.Recorded, in.Request = "b", "§" }, enroll.UnknownPod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, newKey(t))
			test.change(&in)
			if held, isHeld := enroll.Decide(in).(enroll.Held); !isHeld || held.Cause != test.want {
				t.Errorf("got %#v, want %s", enroll.Decide(in), test.want)
			}
		})
	}
}

func TestAnAnswerStaysUntilSomethingHasChanged(t *testing.T) {
	t.Parallel()
	renamed, err := pki.NewSANs("my-cluster-0.my-cluster-peer.etcd.svc", "10.0.0.8")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(in *enroll.Input)
		why    string
	}{
		"nothing":             {func(*enroll.Input) {}, ""},
		"it is not due":       {func(in *enroll.Input) { in.Now = noon().Add(48*time.Hour - time.Second) }, ""},
		"it is due":           {func(in *enroll.Input) { in.Now = noon().Add(48 * time.Hour) }, "due for renewal"},
		"the address":         {func(in *enroll.Input) { in.SANs = renamed }, "names have changed"},
		"the key":             {func(in *enroll.Input) { in.Request = requestOf(t, newKey(t)) }, "key is new"},
		"the CA":              {func(in *enroll.Input) { in.CA = pkitest.CA(t, "peer-ca v1", noon()) }, "CA is new"},
		"the answer is wrong": {func(in *enroll.Input) { in.Answer = "§" }, "cannot be read"},
		"the answer is lost":  {func(in *enroll.Input) { in.Answer = "" }, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, newKey(t))
			first := signed(t, in)
			if !first.RenewalAt.Equal(noon().Add(48 * time.Hour)) {
				t.Errorf("it is due at %s, want after two thirds of its life", first.RenewalAt)
			}
			in.Answer = first.Answer
			in.Ledger = enroll.Ledger{}
			in.Ledger.Record(first.Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: contract.PeerPlane}, noon())
			test.change(&in)
			answered, stays := enroll.Decide(in).(enroll.Answered)
			if stays != (test.why == "") {
				t.Fatalf("got %#v, want that it stays: %t", enroll.Decide(in), test.why == "")
			}
			if stays && !answered.RenewalAt.Equal(first.RenewalAt) {
				t.Errorf("it is due at %s, want %s", answered.RenewalAt, first.RenewalAt)
			}
			if !stays && !strings.Contains(signed(t, in).Why, test.why) {
				t.Errorf("it is signed again because %q, want %q", signed(t, in).Why, test.why)
			}
		})
	}
}

// It could not be made to last longer, so that it would be signed over and over again.
func TestACertificateThatEndsWithItsCAIsNotRenewed(t *testing.T) {
	t.Parallel()
	in := asked(t, newKey(t))
	in.Validity = 1000 * 24 * time.Hour
	in.Answer = signed(t, in).Answer
	in.Now = in.CA.Certificate().NotAfter.Add(-time.Hour)
	if outcome, stays := enroll.Decide(in).(enroll.Answered); !stays {
		t.Errorf("got %#v, want that it stays", outcome)
	}
}

// reencoded is a request for a key whose encoding is another than that of its certificate: the bits of the point are shifted.
func reencoded(t *testing.T, key pki.PrivateKey) string {
	t.Helper()
	const shift = 5 // the first byte of a point is 4
	var parsed struct {
		Info struct {
			Raw       asn1.RawContent
			Version   int
			Subject   asn1.RawValue
			PublicKey struct {
				Algorithm pkix.AlgorithmIdentifier
				Key       asn1.BitString
			}
			Attributes []asn1.RawValue `asn1:"tag:0"`
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(request(t, key.Signer()), &parsed); err != nil {
		t.Fatal(err)
	}
	point := parsed.Info.PublicKey.Key.Bytes
	shifted := new(big.Int).Lsh(new(big.Int).SetBytes(point), shift).FillBytes(make([]byte, len(point)))
	parsed.Info.Raw, parsed.Info.PublicKey.Key = nil, asn1.BitString{Bytes: shifted, BitLength: 8*len(point) - shift}
	info, err := asn1.Marshal(parsed.Info)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(info)
	if parsed.Signature.Bytes, err = key.Signer().Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
		t.Fatal(err)
	}
	parsed.Signature.BitLength = 8 * len(parsed.Signature.Bytes)
	der, err := asn1.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return encode(der)
}

func TestAKeyIsTheSameInEveryEncoding(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in := asked(t, key)
	first := signed(t, in)
	in.Answer, in.Request = first.Answer, reencoded(t, key)
	if outcome, stays := enroll.Decide(in).(enroll.Answered); !stays {
		t.Errorf("another encoding of the key in the answer gets %#v", outcome)
	}
	in.Ledger = enroll.Ledger{}
	in.Ledger.Record(first.Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "b", Plane: contract.PeerPlane}, noon())
	if denied, is := enroll.Decide(in).(enroll.Denied); !is || denied.Cause != enroll.KeyOfOtherPod {
		t.Errorf("another encoding of the key of another pod gets %#v", enroll.Decide(in))
	}
}
