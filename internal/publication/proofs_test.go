package publication_test

import (
	"crypto/x509"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// anchor is a CA certificate as far as names and keys go.
func anchor(subject, key string) *x509.Certificate {
	return &x509.Certificate{Raw: []byte(subject + key), RawSubject: []byte(subject), RawSubjectPublicKeyInfo: []byte(key)}
}

func TestLeavesAreNeededWhereNamesDoNotTellAnchorsApart(t *testing.T) {
	t.Parallel()
	one, two, renewed, other := anchor("ca", "1"), anchor("ca", "2"), anchor("ca", "1"), anchor("ca v1", "3")
	renewed.Raw = []byte("renewed")
	trusts := func(listener publication.Role, anchors ...*x509.Certificate) map[publication.Role][]string {
		var named []string
		for _, a := range anchors {
			named = append(named, pki.FingerprintOf(a).String())
		}
		return map[publication.Role][]string{listener: named}
	}
	internal := replication
	had := map[string]string{pki.KeyIDOf(one).String(): "leaf"}
	for name, c := range map[string]struct {
		listening publication.Listening
		want      []*x509.Certificate
	}{
		"one anchor": {publication.Listening{Trust: trusts(internal, one)}, nil},
		"anchors of different names": {
			publication.Listening{Trust: trusts(internal, one, other)}, nil,
		},
		"two certificates of one key": {
			publication.Listening{Trust: trusts(internal, one, renewed)}, nil,
		},
		"two keys of one name": {
			publication.Listening{Trust: trusts(internal, one, other, two)}, []*x509.Certificate{one, two},
		},
		"two keys of one name, and two certificates of one of them": {
			publication.Listening{Trust: trusts(internal, one, renewed, two)}, []*x509.Certificate{one, two},
		},
		"a listener of the other authority trusts the second": {
			publication.Listening{Trust: map[publication.Role][]string{
				internal: trusts(internal, one)[internal], tls: trusts(tls, two)[tls],
			}}, nil,
		},
		"the first is withdrawn": {
			publication.Listening{Trust: trusts(internal, two), Previous: publication.Publication{Trust: trusts(internal, one, two)}},
			[]*x509.Certificate{one, two},
		},
		"the node says that it still trusts the first": {
			publication.Listening{Trust: trusts(internal, two), Report: publication.Report{
				Roles: map[publication.Role]publication.RoleReport{internal: {Trusts: trusts(internal, one)[internal]}},
			}},
			[]*x509.Certificate{one, two},
		},
		"the node was told to trust the first, and may do so": {
			publication.Listening{Trust: trusts(internal, two), Report: publication.Report{
				Loading: []publication.Publication{{Trust: trusts(internal, one)}},
			}},
			[]*x509.Certificate{one, two},
		},
		"a leaf of the first was given, and the node has not said what it trusts": {
			publication.Listening{Trust: trusts(internal, two), Previous: publication.Publication{Trust: trusts(internal, two), Proofs: had}},
			[]*x509.Certificate{one},
		},
		"a leaf of the first was given, and the node has said that it trusts the second": {
			publication.Listening{Trust: trusts(internal, two), Previous: publication.Publication{Trust: trusts(internal, two), Proofs: had}, Settled: true},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.listening.Stores = stores()
			got := publication.InDoubt(clusterDomain, []*x509.Certificate{one, two, renewed, other}, c.listening)
			if len(got) != len(c.want) || slices.ContainsFunc(c.want, func(a *x509.Certificate) bool { return !slices.Contains(got, a) }) {
				t.Errorf("%d anchors, want the %d of the sentence", len(got), len(c.want))
			}
		})
	}
}
