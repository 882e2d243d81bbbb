package pki

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// MaxBundleBytes is the largest PEM text that is read: no Secret holds more.
const MaxBundleBytes = 1 << 20

// The limits of what people write into one entry of a Secret. Every peer that connects verifies what takes
// part in a chain; no chain needs more.
const (
	// MaxChainBytes is the largest PEM text of a chain or a key.
	MaxChainBytes = 256 << 10
	// MaxChainLength is how many certificates a chain has at most.
	MaxChainLength = 10
)

// ParseChain reads a chain that Keyturn has not written, as strictly as ParseBundle and within
// MaxChainBytes and MaxChainLength. The limits are checked before anything is decoded.
func ParseChain(data []byte) ([]*x509.Certificate, error) {
	if len(data) > MaxChainBytes {
		return nil, fmt.Errorf("parsing certificates: %w", TooLong(len(data), MaxChainBytes))
	}
	if count := bytes.Count(data, []byte(blockStart)); count > MaxChainLength {
		return nil, fmt.Errorf("parsing certificates: there are %d PEM blocks: at most %d certificates are read", count, MaxChainLength)
	}
	return ParseBundle(data)
}

// TooLong says that a text is not read because of its length.
func TooLong(bytes, limit int) error {
	return fmt.Errorf("the text has %d bytes: at most %d are read", bytes, limit)
}

// ParseBundle reads one or more certificates in the order of the text. It is
// strict: input without a block, damaged blocks, blocks of another type and
// input above MaxBundleBytes are errors that say so. (A verifier that skips what
// it does not understand trusts less than was meant.) Text around blocks, as
// RFC 7468 has it and openssl writes it, is skipped.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	blocks, err := Blocks(data)
	if err != nil {
		return nil, fmt.Errorf("parsing certificates: %w", err)
	}
	certs := make([]*x509.Certificate, 0, len(blocks))
	for i, block := range blocks {
		cert, err := parseCertificateBlock(block)
		if err != nil {
			return nil, fmt.Errorf("parsing certificates: block %d: %w", i+1, err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// ParseCertificate reads a text that holds exactly one certificate.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	certs, err := ParseBundle(data)
	if err != nil {
		return nil, err
	}
	if len(certs) != 1 {
		return nil, fmt.Errorf("parsing certificate: %d certificates found: exactly one is needed", len(certs))
	}
	return certs[0], nil
}

// FirstCertificate reads a bundle as strictly as ParseBundle and returns its
// first certificate, the one that most readers of a bundle use.
func FirstCertificate(data []byte) (*x509.Certificate, error) {
	certs, err := ParseBundle(data)
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

// EncodeBundle renders certificates as PEM blocks in the given order.
func EncodeBundle(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: cert.Raw}))
	}
	return out.Bytes()
}

func parseCertificateBlock(block *pem.Block) (*x509.Certificate, error) {
	if block.Type != blockCertificate {
		if strings.HasSuffix(block.Type, blockPKCS8) {
			return nil, errors.New("a private key was found where a certificate should be")
		}
		return nil, fmt.Errorf("PEM block %q is not a certificate", block.Type)
	}
	if len(block.Headers) > 0 {
		return nil, errors.New("the PEM block of a certificate has headers")
	}
	return CertificateOf(block.Bytes)
}

// CertificateOf reads the DER of one certificate. One of an RSA key above MaxRSABits is
// an error: to verify what such a key has signed takes time that grows with the square
// of its length.
func CertificateOf(der []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate is damaged, or of a kind that is not supported: %w", err)
	}
	if key, is := cert.PublicKey.(*rsa.PublicKey); is {
		if err := checkModulus(key.N); err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
	}
	return cert, nil
}

// blockStart begins each PEM block, blockEnd ends it.
const (
	blockStart = "-----BEGIN "
	blockEnd   = "-----END "
)

// Blocks splits PEM text into its blocks. Unlike pem.Decode alone it never skips
// one that it cannot read: that is an error.
func Blocks(data []byte) ([]*pem.Block, error) {
	if len(data) > MaxBundleBytes {
		return nil, TooLong(len(data), MaxBundleBytes)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the text is empty")
	}
	var blocks []*pem.Block
	whole := data
	for {
		rest, isText := skipText(data)
		switch {
		case !isText:
			return nil, unreadable(whole, fmt.Sprintf("PEM block %d is damaged or cut off", len(blocks)+1))
		case len(rest) == 0 && len(blocks) == 0:
			return nil, unreadable(whole, "there is no PEM block in the text")
		case len(rest) == 0:
			return blocks, nil
		}
		block, after := pem.Decode(rest)
		if block == nil || bytes.Count(rest[:len(rest)-len(after)], []byte(blockStart)) != 1 {
			return nil, unreadable(whole, fmt.Sprintf("PEM block %d is damaged or cut off", len(blocks)+1))
		}
		blocks = append(blocks, block)
		data = after
	}
}

// skipText returns what follows the lines before the next block. It is false when one of them is a part of a block.
func skipText(data []byte) (rest []byte, isText bool) {
	rest = bytes.TrimSpace(data)
	for len(rest) > 0 && !bytes.HasPrefix(rest, []byte(blockStart)) {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if isPartOfBlock(bytes.TrimSpace(line)) {
			return nil, false
		}
		rest = bytes.TrimSpace(after)
	}
	return rest, true
}

// isPartOfBlock reports whether a line outside of blocks has a boundary, or the beginning of what is encoded between two.
func isPartOfBlock(line []byte) bool {
	const shortest = 60
	if bytes.Contains(line, []byte(blockStart)) || bytes.Contains(line, []byte(blockEnd)) {
		return true
	}
	_, err := base64.StdEncoding.DecodeString(string(line))
	return err == nil && len(line) >= shortest && bytes.HasPrefix(line, []byte("MI")) // of DER
}
