package pki_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestAFingerprintSurvivesItsTextForm(t *testing.T) {
	t.Parallel()
	fp := pki.FingerprintOf(newCA(t, "a").Certificate())
	for _, text := range []string{fp.String(), strings.ToUpper(fp.String())} {
		if got, err := pki.ParseFingerprint(text); err != nil || got != fp {
			t.Errorf("ParseFingerprint(%q) = %s, %v", text, got, err)
		}
	}
	data, err := json.Marshal(fp)
	if err != nil || string(data) != `"`+fp.String()+`"` {
		t.Errorf("JSON form %s, %v", data, err)
	}
	var read pki.Fingerprint
	if err := json.Unmarshal(data, &read); err != nil || read != fp {
		t.Errorf("read %s, %v", read, err)
	}
}

func TestWhatIsNoFingerprintIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if fp, err := pki.ParseFingerprint(text); err == nil {
			t.Errorf("ParseFingerprint(%q) = %s", text, fp)
		}
	}
}

func TestARenewedAuthorityIsAnotherCertificateOfTheSameKey(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 365*day, noon().Add(day))
	if err != nil {
		t.Fatal(err)
	}
	if pki.FingerprintOf(ca.Certificate()) == pki.FingerprintOf(renewed.Certificate()) {
		t.Error("the fingerprint did not change")
	}
	if pki.KeyIDOf(ca.Certificate()) != pki.KeyIDOf(renewed.Certificate()) || ca.Key().ID() != renewed.Key().ID() {
		t.Error("the key id changed")
	}
}

func TestSHA1NamesAreFortyLowerCaseHexDigits(t *testing.T) {
	t.Parallel()
	name := pki.SHA1Name(newCA(t, "a").Certificate())
	if len(name) != 40 || strings.ToLower(name) != name {
		t.Errorf("%q is not 40 lower-case hex digits", name)
	}
}
