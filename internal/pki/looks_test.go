package pki_test

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/keyturn/keyturn/internal/pki"
)

func utf16LE(text []byte) []byte {
	encoded := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(string(text))) {
		encoded = append(encoded, byte(unit), byte(unit>>8))
	}
	return encoded
}

func TestWhatLooksLikeSomethingElseIsSaidSo(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	good := pki.EncodeBundle(ca.Certificate())
	store, err := pki.EncodeTrustStore([]pki.TrustEntry{{Alias: "a", Certificate: ca.Certificate()}}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text []byte
		says string
	}{
		"a byte order mark":           {slices.Concat([]byte("\xef\xbb\xbf"), good), "byte order mark"},
		"UTF-16":                      {utf16LE(good), "iconv -f UTF-16"},
		"UTF-16 without a mark":       {utf16LE(good)[2:], "iconv -f UTF-16"},
		"base64 twice":                {[]byte(base64.StdEncoding.EncodeToString(good)), "base64 of PEM"},
		"base64 twice, in lines":      {bytes.ReplaceAll([]byte(base64.StdEncoding.EncodeToString(good)), []byte("LS0t"), []byte("LS0t\n")), "base64 of PEM"},
		"base64 without boundaries":   {[]byte(base64.StdEncoding.EncodeToString(ca.Certificate().Raw)), "without the lines"},
		"DER":                         {ca.Certificate().Raw, "openssl x509 -inform DER"},
		"PKCS#12":                     {store, "openssl pkcs12"},
		"base64 of PKCS#12":           {[]byte(base64.StdEncoding.EncodeToString(store)), "base64 of a PKCS#12 store"},
		"a Java key store":            {[]byte("\xfe\xed\xfe\xed\x00\x00"), "keytool"},
		"line breaks that are none":   {bytes.ReplaceAll(good, []byte("\n"), []byte(`\n`)), "real line breaks"},
		"two blocks without a break":  {slices.Concat(bytes.TrimSpace(good), good), "a line break is missing"},
		"two blocks in one long line": {bytes.ReplaceAll(slices.Concat(good, good), []byte("\n"), nil), "a line break is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, parse := range map[string]func([]byte) error{
				"as certificates": func(text []byte) error { _, err := pki.ParseBundle(text); return err },
				"as a key":        func(text []byte) error { _, err := pki.ParsePrivateKey(text); return err },
			} {
				if err := parse(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: %v, want it to say %q", what, err, test.says)
				}
			}
		})
	}
}

func TestAKeyThatCannotBeReadIsToldWhatToConvert(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("no openssl: make needs installs it")
	}
	const out = "key.pem"
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"with its parameters": {[]string{"ecparam", "-genkey", "-name", "prime256v1", "-out", out}, "EC PARAMETERS"},
		"on another curve":    {[]string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:brainpoolP256r1", "-out", out}, "brainpoolP256r1"},
		"of the old form":     {[]string{"genrsa", "-traditional", "-out", out, "1024"}, "openssl pkcs8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), out)
			command := exec.CommandContext(t.Context(), openssl, test.args...)
			command.Dir = filepath.Dir(path)
			if said, err := command.CombinedOutput(); err != nil {
				t.Fatalf("openssl: %v\n%s", err, said)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pki.ParsePrivateKey(text); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want it to say %q", err, test.says)
			}
		})
	}
}

// What cannot be told is not guessed, and nothing of the text is repeated: it may hold a key.
func TestNothingOfAnUnreadableTextIsRepeated(t *testing.T) {
	t.Parallel()
	key := newKey(t, small()).PEM()
	block, _ := pem.Decode(key)
	for name, text := range map[string][]byte{
		"a key with a damaged line": bytes.Replace(key, []byte("\n"), []byte("\n!"), 2),
		"its DER":                   block.Bytes,
		"its base64":                []byte(base64.StdEncoding.EncodeToString(block.Bytes)),
	} {
		_, err := pki.ParsePrivateKey(text)
		if err == nil || bytes.Contains([]byte(err.Error()), key[40:60]) || len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
