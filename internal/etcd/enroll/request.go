package enroll

import (
	"bytes"
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

func hasPrivateKey(data []byte) bool {
	_, found := pki.PrivateKeysIn(data)
	return found
}

func exposed() *Denied {
	return &Denied{PrivateKey, "it holds a private key, which every reader of the pod has seen: make a new one and never use it again"}
}

func decode(value string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, errors.New("it is not standard base64")
	}
	return data, nil
}

func keyOf(request *x509.CertificateRequest) pki.KeyID { return pki.KeyIDOfPublic(request.PublicKey) }
