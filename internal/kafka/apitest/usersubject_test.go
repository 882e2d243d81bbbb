package apitest

import (
	"crypto/x509"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// A user's CA comes back with its key and says something else of itself. To all but Go
// it is another authority then; the oracle of these tests is as strict.

const (
	ownOne   = "corporate one"
	ownTwo   = "corporate two"
	ownThree = "corporate three"
)

// renamed is the user's CA made again with its key and another subject.
func (w *world) renamed(ca pki.Authority, name string) pki.Authority {
	w.t.Helper()
	again, err := pki.SelfSign(ca.Key(), pki.CASpec{Subject: pki.Subject{CommonName: name}, Validity: longLasting, Now: w.clock.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	return again
}

// renames has the user bring the CA with the certificate before it beside it.
func (w *world) renames(ca pki.Authority, generation string) {
	w.t.Helper()
	old := w.caCertificate(authorities.Cluster)
	w.replaceOwn(ca, generation, map[string][]byte{authority.DatedCertKey(old): pki.EncodeBundle(old)})
}

// renaming is a cluster with a CA of the user's, and clients that never look again or
// read every certificate. Who reads ca.crt alone finds what the user has put there.
func renaming(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	w, ca := corporate(t)
	w.without[readsBundle], w.without[readsFirst] = true, true
	w.pin()
	return w, ca
}

// renamedOnce is the same after the CA has come back under another name, when nobody but
// clients that have pinned the first name remembers it.
func renamedOnce(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	w, one := renaming(t)
	w.nobodyReads()
	w.replaceOwn(w.renamed(one, ownTwo), "1", nil)
	w.settle()
	w.restartEach()
	return w, one
}

// strategies are those of the plans that people are shown while the world comes to
// rest, with their reasons.
func (w *world) strategies() map[trust.StrategyKind]string {
	w.t.Helper()
	seen := map[trust.StrategyKind]string{}
	for range 12 {
		w.run(1)
		var recorded corev1.ConfigMap
		w.get(rotation.ConfigMapName(clusterName), &recorded)
		record, err := authorities.Words().Parse(recorded.BinaryData[rotation.Key(string(authorities.Cluster))])
		if err != nil {
			w.t.Fatal(err)
		}
		if ahead := record.Ahead(w.clock.Now()); ahead.Strategy != "" {
			seen[ahead.Strategy] = ahead.Reason
		}
	}
	w.settle()
	return seen
}

// sentAlong are the cross certificates in the Secrets of all nodes.
func (w *world) sentAlong() []*x509.Certificate {
	w.t.Helper()
	var all []*x509.Certificate
	for _, pod := range slices.Sorted(maps.Keys(w.ran)) {
		for _, cert := range w.certs.in(w.secret(pod).Data[pod+".crt"])[1:] {
			if !slices.ContainsFunc(all, cert.Equal) {
				all = append(all, cert)
			}
		}
	}
	return all
}

func TestAUsersRenewalUnderAnotherSubjectRestartsNobodyAndCutsNobodyOff(t *testing.T) {
	t.Parallel()
	w, one := renaming(t)

	w.renames(w.renamed(one, ownTwo), "1")
	planned := w.strategies()

	if _, crossed := planned[trust.CrossSigned]; !crossed || planned[trust.Classic] != "" {
		t.Errorf("the plans say %v, want %s", planned, trust.CrossSigned)
	}
	w.wantRestarts(0)
	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")
	w.wantRoles(" controlplane-9090", "presents corporate two cross-signed by corporate one, trusts corporate one, corporate two")
	w.wantReady()
}

func TestWhoHasPinnedAUsersAuthorityIsServedWhenNothingElseRemembersIt(t *testing.T) {
	t.Parallel()
	w, one := renamedOnce(t)

	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")
	w.wantRoles(" controlplane-9090", "presents corporate two cross-signed by corporate one, trusts corporate two")
	if states := w.anchors(authorities.Cluster); len(states) != 1 {
		t.Errorf("anchors are %v, want one", states)
	}
	before, sent := w.faulty.Written, w.sentAlong()
	w.run(4)
	if after := w.sentAlong(); w.faulty.Written != before || len(sent) != 1 || !slices.EqualFunc(sent, after, (*x509.Certificate).Equal) {
		t.Errorf("at rest %d objects were written, and %d cross certificates became %d", w.faulty.Written-before, len(sent), len(after))
	}

	// Leaves are renewed long before their authority ends, and nobody is cut off then.
	w.clock.SetTime(start().Add(340 * authority.Day))
	w.settle()
	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")

	w.pinned = nil // it has a day left
	w.clock.SetTime(one.Certificate().NotAfter.Add(-authority.Day))
	w.settle()
	w.wantRoles(" replication-9091", "presents corporate two, trusts corporate two")
}

func TestAUsersAuthorityIsRenamedTwiceInARow(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(w *world) func() bool{
		"when one presents the first": func(w *world) func() bool { return w.presents(1, ownTwo) },
		"when all present the first":  func(w *world) func() bool { return w.presents(3, ownTwo) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, one := renaming(t)
			w.lag["my-dual-1"] = 1
			w.renames(w.renamed(one, ownTwo), "1")
			w.once(when(w), func() {
				w.renames(w.renamed(one, ownThree), "2")
			})
			w.settle()

			w.wantRestarts(0)
			w.wantRoles(" replication-9091", "presents corporate three cross-signed by corporate two, corporate one, trusts corporate three")
		})
	}
}

func TestAUserGoesBackToTheSubjectBefore(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(w *world) func() bool{
		"when nobody presents the new one": func(w *world) func() bool { return w.admitted(authorities.Cluster) },
		"when some present the new one":    func(w *world) func() bool { return w.presents(1, ownTwo) },
		"when all present the new one":     func(w *world) func() bool { return w.presents(3, ownTwo) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, one := renaming(t)
			w.lag["my-dual-1"] = 1
			w.renames(w.renamed(one, ownTwo), "1")
			w.once(when(w), func() { w.renames(one, "2") })
			w.settle()

			w.wantRestarts(0)
			w.wantRoles(" replication-9091", "presents corporate one cross-signed by corporate two, trusts corporate one")
		})
	}
}

func TestTwoCrossCertificatesBecomeOne(t *testing.T) {
	t.Parallel()
	w, one := renaming(t)
	two := w.renamed(one, ownTwo)
	w.renames(two, "1")
	w.settle()
	another, err := pki.CrossSign(one, two.Certificate(), w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	const entry = "my-dual-1.crt"
	leaf := w.first(w.secret("my-dual-1").Data[entry])
	w.replaceData("my-dual-1", entry, pki.EncodeBundle(leaf, another))
	w.settle()

	if sent := w.sentAlong(); len(sent) != 1 {
		t.Errorf("%d cross certificates are sent along, want one", len(sent))
	}
	w.wantRestarts(0)
}

func TestAUsersRenewalUnderAnotherKeyIdentifierAloneSaysWhyNobodyVouches(t *testing.T) {
	t.Parallel()
	w, one := renaming(t)
	w.pinned = nil // nobody can help who is not written in Go and never looks again
	other := pkitest.Changed(t, one, one, func(cert *x509.Certificate) {
		cert.SubjectKeyId = []byte("another one")
		cert.NotAfter = cert.NotAfter.Add(authority.Day)
	})
	w.renames(other, "1")
	isAdmitted := func() bool {
		return len(authority.StoredAnchors(authority.Stored{Exists: true, Data: w.stored.secrets["my-cluster-ca-trusted-certs"]})) > 1
	}
	w.once(isAdmitted, func() {
		w.wantCondition(clusterTrust, "Classic: ", "another subject key identifier")
	})
	planned := w.strategies()

	if why := planned[trust.Classic]; why == "" || planned[trust.CrossSigned] != "" {
		t.Errorf("the plans say %v, want %s alone", planned, trust.Classic)
	}
	if sent := w.sentAlong(); len(sent) > 0 {
		t.Errorf("%d cross certificates are sent along, want none", len(sent))
	}
	w.wantRestarts(2)
}

func TestAStaleLeaderAndAUsersRenewalUnderAnotherSubject(t *testing.T) {
	t.Parallel()
	w, one := renaming(t)
	lagging := newLaggingClient(w.faulty)
	other := w.newReconciler(lagging)
	w.reconcile(other)

	w.renames(w.renamed(one, ownTwo), "1")
	w.interleave(rand.New(rand.NewPCG(3, 2)), other, lagging)
	w.settle()

	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")
	if sent := w.sentAlong(); len(sent) != 1 {
		t.Errorf("%d cross certificates are sent along, want one", len(sent))
	}
	w.wantRestarts(0)
}
