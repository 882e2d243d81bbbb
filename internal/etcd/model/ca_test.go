package model_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestWhatBecomesOfACA(t *testing.T) {
	t.Parallel()
	ca, other, old := pkitest.CA(t, "my-cluster peer-ca v1", noon()), pkitest.CA(t, "my-cluster peer-ca v2", noon()), pkitest.CA(t, "old", noon().AddDate(-2, 0, 0))
	distrusted := pkitest.CA(t, "my-cluster peer-ca v0", noon())
	key := map[string][]byte{authority.KeyKey: ca.Key().PEM()}
	cert := map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}
	recorded := model.Trusted{HasMembers: true}
	mine, another, both := listOf(ca), listOf(other), listOf(other, ca)
	expired := model.StoredCA{Key: map[string][]byte{authority.KeyKey: old.Key().PEM()}, Cert: map[string][]byte{authority.CertKey: pki.EncodeBundle(old.Certificate())}}
	complete := model.StoredCA{Key: key, Cert: cert}
	replaced := model.StoredCA{Key: key, Cert: cert, Trusted: map[string][]byte{"other.crt": pki.EncodeBundle(other.Certificate())}}
	ended := pkitest.Changed(t, ca, ca, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = noon().AddDate(-1, 0, 0), noon().Add(-time.Minute)
	}).Certificate()
	besides := func(bundle ...*x509.Certificate) model.StoredCA {
		return model.StoredCA{Key: key, Cert: map[string][]byte{authority.CertKey: pki.EncodeBundle(bundle...)}}
	}
	const create, certify, use, hold = "model.MakeCA", "model.CertifyCA", "model.UseCA", "model.HoldCA"
	for name, test := range map[string]struct {
		stored  model.StoredCA
		trusted model.Trusted
		want    string
		reason  model.Reason
	}{
		"there is none":                                  {want: create},
		"the operator was cut off":                       {stored: model.StoredCA{Key: key}, want: certify},
		"it is complete":                                 {stored: model.StoredCA{Key: key, Cert: cert}, trusted: recorded, want: use},
		"an older version has expired behind it":         {stored: besides(ca.Certificate(), ended), trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{mine}}, want: use},
		"an older version has expired before it":         {stored: besides(ended, ca.Certificate()), trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{mine}}, want: use},
		"another CA has expired before it":               {stored: besides(old.Certificate(), ca.Certificate()), trusted: recorded, want: use},
		"each version has expired":                       {stored: besides(ended, ended), trusted: recorded, want: use},
		"it has expired":                                 {stored: expired, trusted: recorded, want: use},
		"it is lost while members trust it":              {trusted: recorded, want: hold, reason: model.CALost},
		"its certificate is lost":                        {stored: model.StoredCA{Key: key}, trusted: recorded, want: hold, reason: model.CALost},
		"its key is lost":                                {stored: model.StoredCA{Cert: cert}, want: hold, reason: model.CALost},
		"its key is another's":                           {stored: model.StoredCA{Key: map[string][]byte{authority.KeyKey: other.Key().PEM()}, Cert: cert}, want: hold, reason: model.CAUnusable},
		"it is lost with the status, and was used":       {trusted: model.Trusted{Used: mine}, want: hold, reason: model.CALost},
		"it is lost with the status, and is published":   {stored: model.StoredCA{Key: key}, trusted: model.Trusted{Published: [][]pki.Fingerprint{mine}}, want: hold, reason: model.CALost},
		"pods accept another":                            {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{another, another}, Used: mine}, want: hold, reason: model.CAChanged},
		"most pods accept another":                       {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{another, mine, another}}, want: hold, reason: model.CAChanged},
		"one pod accepts another":                        {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{another, mine, mine}}, want: use},
		"pods accept it, whatever Secrets say":           {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{mine}, Published: [][]pki.Fingerprint{another, another}}, want: use},
		"pods accept both":                               {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{append(another, mine...)}}, want: use},
		"another was used":                               {stored: complete, trusted: model.Trusted{HasMembers: true, Used: another, Published: [][]pki.Fingerprint{mine}}, want: hold, reason: model.CAChanged},
		"it was used, and another after it":              {stored: complete, trusted: model.Trusted{HasMembers: true, Used: append(another, mine...)}, want: use},
		"another is published":                           {stored: complete, trusted: model.Trusted{HasMembers: true, Published: [][]pki.Fingerprint{another}}, want: hold, reason: model.CAChanged},
		"one of two Secrets names another":               {stored: complete, trusted: model.Trusted{HasMembers: true, Published: [][]pki.Fingerprint{another, mine}}, want: use},
		"another that has expired is in place":           {stored: expired, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{mine}}, want: hold, reason: model.CAChanged},
		"pods present what its successor has signed":     {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{both, both, both}, Presented: leavesOf(t, other, other, ca)}, want: hold, reason: model.CAChanged},
		"one pod presents what another has signed":       {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{both, both, both}, Presented: leavesOf(t, other, ca, ca)}, want: use},
		"pods present what the CA before has signed":     {stored: replaced, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{both, both}, Presented: leavesOf(t, other, other)}, want: use},
		"what a successor has signed has expired":        {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{both}, Presented: leavesAt(t, noon().Add(-2*time.Hour), other)}, want: use},
		"a pod presents what a distrusted CA has signed": {stored: complete, trusted: model.Trusted{HasMembers: true, Pinned: [][]pki.Fingerprint{mine}, Presented: leavesOf(t, distrusted)}, want: use},
		"its key is broken and was never signed":         {stored: model.StoredCA{Key: map[string][]byte{}}, want: hold, reason: model.CAUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, _ := model.Resolve(three(t), settings())
			act := cluster.DecideCA(contract.PeerPlane, test.stored, test.trusted, noon())
			if got := fmt.Sprintf("%T", act); got != test.want {
				t.Fatalf("got %s, want %s", got, test.want)
			}
			if held, is := act.(model.HoldCA); is && (held.Problem.Reason != test.reason || held.Problem.Message == "") {
				t.Errorf("the problem is %+v", held.Problem)
			}
			if made, is := act.(model.MakeCA); is && (made.Spec.Subject.String() != "CN=my-cluster peer-ca v0,O=etcd" || made.Spec.Validity != 43800*time.Hour) {
				t.Errorf("the CA is %s for %s", made.Spec.Subject, made.Spec.Validity)
			}
		})
	}
}

func leavesOf(t *testing.T, cas ...pki.Authority) []*x509.Certificate {
	t.Helper()
	return leavesAt(t, noon(), cas...)
}

// leavesAt are certificates that are valid for an hour.
func leavesAt(t *testing.T, now time.Time, cas ...pki.Authority) []*x509.Certificate {
	t.Helper()
	var leaves []*x509.Certificate
	for _, ca := range cas {
		leaf, err := ca.Issue(pkitest.Signer(t, elliptic.P256()).Public(), pki.LeafSpec{
			Subject: pki.Subject{CommonName: "member"}, Usages: pki.BothUsages(), Validity: time.Hour, Now: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leaf)
	}
	return leaves
}

func listOf(cas ...pki.Authority) []pki.Fingerprint {
	var list []pki.Fingerprint
	for _, ca := range cas {
		list = append(list, pki.FingerprintOf(ca.Certificate()))
	}
	return list
}

func TestTheMessageNamesWhatToRestore(t *testing.T) {
	t.Parallel()
	ca, other := pkitest.CA(t, "my-cluster client-ca v1", noon()), pkitest.CA(t, "my-cluster client-ca v0", noon())
	stored := model.StoredCA{Key: map[string][]byte{authority.KeyKey: other.Key().PEM()}, Cert: map[string][]byte{authority.CertKey: pki.EncodeBundle(other.Certificate())}}
	cluster, _ := model.Resolve(three(t), settings())
	trusted := model.Trusted{Pinned: [][]pki.Fingerprint{listOf(other, ca)}, Presented: leavesOf(t, ca)} // the CA was replaced, and other is a backup
	held, is := cluster.DecideCA(contract.ClientPlane, stored, trusted, noon()).(model.HoldCA)
	if !is {
		t.Fatal("the CA is used")
	}
	for _, want := range []string{
		"etcd.my-cluster-client-ca ", "etcd.my-cluster-client-ca-cert ",
		"must be " + pki.FingerprintOf(ca.Certificate()).String(), "is " + pki.FingerprintOf(other.Certificate()).String(),
	} {
		if !strings.Contains(held.Problem.Message, want) {
			t.Errorf("the message %q lacks %q", held.Problem.Message, want)
		}
	}
}

func TestWhatIsNoFingerprintShowsNothing(t *testing.T) {
	t.Parallel()
	if got := model.Fingerprints([]string{"", "aa", strings.Repeat("z", 64), strings.Repeat("a", 1<<20)}); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
