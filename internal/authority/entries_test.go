package authority_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestEntriesThatNodesDoNotTrustAreNamed(t *testing.T) {
	t.Parallel()
	old, ended := pkitest.CA(t, "old", noon()), pkitest.CA(t, "ended", noon().Add(-400*day))
	dated := authority.DatedCertKey(old.Certificate())
	own := func(tb testing.TB) (*world, chained) {
		tb.Helper()
		return runningWorld(tb), chained{}
	}
	tests := map[string]struct {
		in    func(testing.TB) (*world, chained)
		entry string
		text  []byte
		// says is empty where there is nothing to say.
		says []string
	}{
		"a CA without a date in a user's cluster CA":    {userWorld, "ca-old.crt", pki.EncodeBundle(old.Certificate()), []string{"CN=old", "dated entries", "rename it to " + dated}},
		"a CA with a date in a user's cluster CA":       {userWorld, dated, pki.EncodeBundle(old.Certificate()), nil},
		"an expired CA with a date":                     {userWorld, authority.DatedCertKey(ended.Certificate()), pki.EncodeBundle(ended.Certificate()), []string{"CN=ended", "it expired at 2026-10-17T12:00:00Z", "remove it"}},
		"another ending":                                {userWorld, "c.pem", pki.EncodeBundle(old.Certificate()), []string{"only entries that end in .crt are read", "rename it"}},
		"something that is no certificate":              {userWorld, "notes.txt", []byte("ask Alice"), nil},
		"a leaf in a user's cluster CA":                 {userWorld, "leaf.crt", pki.EncodeBundle(leafOf(t, old)), []string{"is not a CA", "remove it"}},
		"a further clients CA":                          {clientsWorld, "partner.crt", pki.EncodeBundle(old.Certificate()), nil},
		"a leaf in a user's clients CA":                 {clientsWorld, "partner.crt", pki.EncodeBundle(leafOf(t, old)), []string{"is not a CA", "remove it"}},
		"an expired further clients CA":                 {clientsWorld, "partner.crt", pki.EncodeBundle(ended.Certificate()), []string{"CN=ended", "it expired at", "remove it"}},
		"a further clients CA with another ending":      {clientsWorld, "partner.cer", pki.EncodeBundle(old.Certificate()), []string{"only entries that end in .crt are read"}},
		"a CA that somebody adds to what Keyturn makes": {own, "mine.crt", pki.EncodeBundle(old.Certificate()), []string{"maintained by Keyturn", "remove it", "spec.clusterCa.generateCertificateAuthority"}},
		"an expired CA that goes with the next write":   {own, "mine.crt", pki.EncodeBundle(ended.Certificate()), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := test.in(t)
			w.in.CertSecret.Data[test.entry] = test.text
			warnings := authority.Ignored(w.in)
			if len(test.says) == 0 {
				if len(warnings) > 0 {
					t.Errorf("it is said: %q", warnings)
				}
				return
			}
			if len(warnings) != 1 {
				t.Fatalf("it is said: %q, want one warning", warnings)
			}
			for _, want := range append(test.says, test.entry, "Secret my-") {
				if !strings.Contains(warnings[0].String(), want) {
					t.Errorf("it is said: %s\nwant: %s", warnings[0], want)
				}
			}
		})
	}
}

// sentences are remarks as people read them.
func sentences(remarks []authority.Remark) []string {
	var all []string
	for _, remark := range remarks {
		all = append(all, remark.String())
	}
	return all
}

func TestACopyOfThePresentCAIsNoNews(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	w.in.CertSecret.Data["copy.crt"] = pki.EncodeBundle(chain.issuing.Certificate())
	if warnings := authority.Ignored(w.in); len(warnings) > 0 {
		t.Errorf("it is said: %q", warnings)
	}
}

func TestDistrustOfNobodyInAUsersSecretIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		value  string
		others bool
		says   string
	}{
		"there is no other CA":                 {"now", false, "is the only CA"},
		"there is another CA":                  {"now", true, ""},
		"it says something else":               {"true", true, `is "true", which has no effect`},
		"it says something else and to nobody": {"true", false, `is "true", which has no effect`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, chain := userWorld(t)
			w.in.Now = noon().Add(time.Hour)
			w.in.KeySecret.Annotations[authority.DistrustAnnotation] = test.value
			w.trusts(chain.issuing.Certificate())
			if test.others {
				w.trusts(chain.issuing.Certificate(), pkitest.CA(t, "old", noon()).Certificate())
			}
			said := strings.Join(sentences(append(w.decide().Warnings, authority.Misasked(w.in)...)), "\n")
			if test.says == "" && said != "" || !strings.Contains(said, test.says) {
				t.Errorf("it is said: %q, want %q", said, test.says)
			}
		})
	}
}

func TestTheRefusalOfSeveralCAsSaysWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   func(testing.TB) (*world, chained)
		says string
	}{
		"of a cluster CA": {userWorld, "put a CA that was used before into an entry ca-<its expiry>.crt"},
		"of a clients CA": {clientsWorld, "put each further CA of users into an entry of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, chain := test.in(t)
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(chain.issuing.Certificate(), pkitest.CA(t, "second", noon()).Certificate())
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, "one chain", "issues leaves first", test.says)
		})
	}
}
