package enroll

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"

	"github.com/keyturn/keyturn/internal/pki"
)

// maxRequest is the longest annotation that is read.
const maxRequest = 64 << 10

// read reads the annotation with a request: standard base64 of PEM or DER. Details never quote it.
func read(value string) (*x509.CertificateRequest, *Denied) {
	if len(value) > maxRequest {
		return nil, &Denied{TooLong, pki.TooLong(len(value), maxRequest).Error()}
	}
	if hasPrivateKey([]byte(value)) {
		return nil, exposed()
	}
	data, err := decode(value)
	if err != nil {
		return nil, &Denied{NotBase64, err.Error()}
	}
	if hasPrivateKey(data) {
		return nil, exposed()
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN ")) {
		data = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: data})
	}
	request, err := pki.ParseRequest(data)
	if err != nil {
		return nil, &Denied{NotARequest, err.Error()}
	}
	return request, nil
}

// hasPrivateKey recognises a key that was put where a request belongs, in any of the forms that keys have.
func hasPrivateKey(data []byte) bool {
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		return true
	}
	for _, parse := range []func([]byte) error{
		func(der []byte) error { _, err := x509.ParsePKCS8PrivateKey(der); return err },
		func(der []byte) error { _, err := x509.ParsePKCS1PrivateKey(der); return err },
		func(der []byte) error { _, err := x509.ParseECPrivateKey(der); return err },
	} {
		if parse(data) == nil {
			return true
		}
	}
	return false
}

func exposed() *Denied {
	return &Denied{PrivateKey, "it holds a private key, which everybody who can read the pod has seen: make a new one and never use it again"}
}

func decode(value string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, errors.New("it is not standard base64")
	}
	return data, nil
}

func keyOf(request *x509.CertificateRequest) pki.KeyID {
	return sha256.Sum256(request.RawSubjectPublicKeyInfo)
}
