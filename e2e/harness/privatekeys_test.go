package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrivateKeysAreFoundWhereverTheyArePlanted(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	encode := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"PEM":                         {text, true},
		"PEM in a Secret":             {encode([]byte(text)), true},
		"an annotation in a Secret":   {encode([]byte(encode([]byte(text)))), true},
		"DER":                         {encode(der), true},
		"DER without padding":         {base64.RawURLEncoding.EncodeToString(der), true},
		"PEM within another text":     {"key: |\n  " + text, true},
		"a public key":                {encode(public), false},
		"a public key in PEM":         {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), false},
		"a word":                      {"value", false},
		"nothing":                     {"", false},
		"a word that is base64 often": {"aaaa", false},
	} {
		object := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b", "x": c.value}}, "list": []any{"c"}}
		var want []string
		if c.want {
			want = []string{"Pod my-pod.metadata.annotations.x"}
		}
		if diff := cmp.Diff(want, keysIn("Pod my-pod", object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
