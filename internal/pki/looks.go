package pki

import (
	"bytes"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unreadable says that a text is no PEM, or in which block it ceases to be, and what it looks like where that is known.
func unreadable(whole []byte, problem string) error {
	if looks := looksLike(whole); looks != "" {
		return errors.New(problem + ": " + looks)
	}
	return errors.New(problem)
}

// looksLike says what a text is that should be PEM, and what mends it; empty where it looks like none of those. It never quotes the text.
func looksLike(text []byte) string {
	for _, form := range forms() {
		if form.is(text) {
			return form.mended
		}
	}
	return ""
}

// IsMeantAsPEM reports whether a text was put there as a key or a certificate, in whatever form and however damaged.
func IsMeantAsPEM(text []byte) bool {
	boundary := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	return looksLike(text) != "" || hasBlock(text) || boundary("BEGIN ") || boundary("-END") || boundary("PRIVATE KEY")
}

// form is what people put where PEM belongs.
type form struct {
	is     func([]byte) bool
	mended string
}

const toPEM = "convert it with: openssl x509 -inform DER, or for a key: openssl pkey -inform DER"

func forms() []form {
	return []form{
		{beginsWith("\xef\xbb\xbf"), "it begins with a byte order mark: save it as UTF-8 without one"},
		{isUTF16, "it looks like UTF-16: convert it with: iconv -f UTF-16 -t UTF-8"},
		{beginsWith("\xfe\xed\xfe\xed"), "it looks like a Java key store: export it with: keytool -exportcert -rfc"},
		{isPKCS12, "it looks like a PKCS#12 store: convert it with: openssl pkcs12 -nodes"},
		{isDER, "it looks like DER, which is binary: " + toPEM},
		{hasEscapes, `its line breaks are written as \n: put real line breaks in their place`},
		{isGlued, "a line break is missing between two blocks: each boundary needs a line of its own"},
		{isBase64Of(hasBlock), "it looks like base64 of PEM: it was encoded once too often; put the text into stringData, or encode it once"},
		{isBase64Of(isPKCS12), "it looks like base64 of a PKCS#12 store: decode it, and convert it with: openssl pkcs12 -nodes"},
		{isBase64Of(isDER), "it looks like base64 without the lines -----BEGIN and -----END: decode it, and " + toPEM},
	}
}

func beginsWith(prefix string) func([]byte) bool {
	return func(text []byte) bool { return bytes.HasPrefix(text, []byte(prefix)) }
}

func isUTF16(text []byte) bool {
	const sample = 64
	isMarked := bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
	text = text[:min(len(text), sample)]
	wide := bytes.Count(text, []byte("-\x00-")) + bytes.Count(text, []byte("\x00-\x00-"))
	return isMarked || wide > 0
}

func isDER(text []byte) bool {
	var sequence asn1.RawValue
	_, err := asn1.Unmarshal(text, &sequence)
	return err == nil && sequence.Tag == asn1.TagSequence && sequence.IsCompound && len(sequence.Bytes) > 0
}

// isPKCS12 tells a PFX of RFC 7292, which begins with its version 3.
func isPKCS12(text []byte) bool {
	var sequence asn1.RawValue
	if _, err := asn1.Unmarshal(text, &sequence); err != nil || sequence.Tag != asn1.TagSequence {
		return false
	}
	return bytes.HasPrefix(sequence.Bytes, []byte{asn1.TagInteger, 1, 3})
}

func hasEscapes(text []byte) bool {
	return bytes.Contains(text, []byte(`-----\n`)) || bytes.Contains(text, []byte(`\n-----`))
}

func isGlued(text []byte) bool {
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(blockEnd)) && bytes.Contains(line, []byte(blockStart)) {
			return true
		}
	}
	return false
}

func hasBlock(text []byte) bool { return bytes.Contains(text, []byte(blockStart)) }

func isBase64Of(is func([]byte) bool) func([]byte) bool {
	return func(text []byte) bool {
		inner, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		return err == nil && is(inner)
	}
}

// unknownCurve names the elliptic curve of a PKCS#8 key that is none of those that are read; empty where that is not so.
func unknownCurve(pkcs8 []byte) string {
	var key struct {
		Version   int
		Algorithm struct {
			Algorithm asn1.ObjectIdentifier
			Curve     asn1.RawValue `asn1:"optional"`
		}
		Key []byte
	}
	ecPublicKey := asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	if _, err := asn1.Unmarshal(pkcs8, &key); err != nil || !key.Algorithm.Algorithm.Equal(ecPublicKey) {
		return ""
	}
	var curve asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(key.Algorithm.Curve.FullBytes, &curve); err != nil {
		return ""
	}
	read := []string{"1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"}
	if slices.Contains(read, curve.String()) {
		return ""
	}
	return fmt.Sprintf("the key is on the elliptic curve %s, which is not supported: use P-256, P-384 or P-521, or RSA", curveName(curve.String()))
}

func curveName(oid string) string {
	names := map[string]string{
		"1.3.36.3.3.2.8.1.1.7": "brainpoolP256r1", "1.3.36.3.3.2.8.1.1.11": "brainpoolP384r1", "1.3.36.3.3.2.8.1.1.13": "brainpoolP512r1",
		"1.3.132.0.10": "secp256k1", "1.3.132.0.33": "P-224",
	}
	if name, known := names[oid]; known {
		return name
	}
	return oid
}
