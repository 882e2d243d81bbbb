package keysearch

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"
)

// KeyID is the SHA-256 of a public key in hex.
type KeyID string

// Unreadable is the id of a key that is marked as one and cannot be read, as an encrypted one.
const Unreadable KeyID = "a key that cannot be read"

// content is what was found in some bytes.
type content struct {
	// private are the keys of which the private part is there.
	private      map[KeyID]bool
	certificates map[KeyID]*x509.Certificate
}

// layers is how many encodings may lie around a key: one in a Secret of a Helm release is PEM in
// base64 in gzip in base64 in base64.
const layers = 6

// scan finds the private keys and the certificates in bytes, whatever lies around them.
func scan(data []byte) content {
	found := content{map[KeyID]bool{}, map[KeyID]*x509.Certificate{}}
	found.in(data, layers)
	return found
}

func (c content) in(data []byte, layers int) {
	known := len(c.private)
	for at := range data {
		if der := sequence(data[at:]); der != nil {
			c.note(der)
		}
	}
	if layers > 0 {
		for _, decoded := range decodings(data) {
			c.in(decoded, layers-1)
		}
	}
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) && len(c.private) == known {
		c.private[Unreadable] = true
	}
}

// note looks at one value in DER.
func (c content) note(der []byte) {
	if certificate, err := x509.ParseCertificate(der); err == nil {
		c.certificates[idOf(certificate.RawSubjectPublicKeyInfo)] = certificate
		return
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
		func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
	} {
		key, err := parse(der)
		signer, is := key.(crypto.Signer)
		if err != nil || !is {
			continue
		}
		if public, err := x509.MarshalPKIXPublicKey(signer.Public()); err == nil {
			c.private[idOf(public)] = true
		}
	}
}

func idOf(public []byte) KeyID {
	sum := sha256.Sum256(public)
	return KeyID(hex.EncodeToString(sum[:]))
}

// Bytes of DER.
const (
	tagSequence, tagInteger = 0x30, 0x02
	lengthOne, lengthTwo    = 0x81, 0x82
)

// sequence is the sequence at the beginning of some bytes if a private key or a certificate
// may begin there, otherwise nil. Keys begin with a small integer, certificates with a sequence.
func sequence(data []byte) []byte {
	if len(data) < 4 || data[0] != tagSequence {
		return nil
	}
	header, length := 2, int(data[1])
	switch data[1] {
	case lengthOne:
		header, length = 3, int(data[2])
	case lengthTwo:
		header, length = 4, int(data[2])<<8+int(data[3])
	default:
		if data[1] >= lengthOne-1 {
			return nil
		}
	}
	end := header + length
	if end > len(data) || length < 3 {
		return nil
	}
	if first := data[header : header+3]; first[0] != tagSequence && (first[0] != tagInteger || first[1] != 1) {
		return nil
	}
	return data[:end]
}

// No private key is shorter than these in an encoding.
const (
	shortestBase64 = 60
	shortestHex    = 90
)

// decodings are what the bytes may encode.
func decodings(data []byte) [][]byte {
	texts := [][]byte{data}
	if joined := withoutBreaks(data); len(joined) < len(data) {
		texts = append(texts, joined)
	}
	var decoded [][]byte
	for _, text := range texts {
		for _, run := range runs(text, isBase64, shortestBase64) {
			decoded = append(decoded, fromBase64(run)...)
		}
		for _, run := range runs(text, isHex, shortestHex) {
			if plain, err := hex.DecodeString(string(run[:len(run)-len(run)%2])); err == nil {
				decoded = append(decoded, plain)
			}
		}
	}
	return append(decoded, unzipped(data)...)
}

// withoutBreaks joins the lines of PEM, also within JSON.
func withoutBreaks(data []byte) []byte {
	joined := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		switch escapes := i+1 < len(data) && data[i] == '\\' && (data[i+1] == 'n' || data[i+1] == 'r'); {
		case escapes:
			i++
		case data[i] != ' ' && data[i] != '\t' && data[i] != '\n' && data[i] != '\r' && data[i] != '"':
			joined = append(joined, data[i])
		}
	}
	return joined
}

// runs are the longest pieces of so many bytes of a kind.
func runs(data []byte, is func(byte) bool, shortest int) [][]byte {
	var found [][]byte
	begin := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && is(data[i]) {
			continue
		}
		if i-begin >= shortest {
			found = append(found, data[begin:i])
		}
		begin = i + 1
	}
	return found
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '_' || c == '-'
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// fromBase64 decodes a run from each of the places where its first group may begin.
func fromBase64(run []byte) [][]byte {
	const group = 4
	text := strings.NewReplacer("-", "+", "_", "/").Replace(string(run))
	decoded := make([][]byte, 0, group)
	for begin := range group {
		rest := text[begin:]
		if len(rest)%group == 1 {
			rest = rest[:len(rest)-1]
		}
		if plain, err := base64.RawStdEncoding.DecodeString(rest); err == nil {
			decoded = append(decoded, plain)
		}
	}
	return decoded
}

// maxUnzipped is more than an object of Kubernetes can hold.
const maxUnzipped = 64 << 20

func unzipped(data []byte) [][]byte {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(reader, maxUnzipped)) // what could be read of a broken one counts
	return [][]byte{text}
}
