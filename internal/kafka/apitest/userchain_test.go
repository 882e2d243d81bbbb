package apitest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
)

// What of a user's Secret an application reads decides whether it goes on verifying
// nodes when the user replaces the CA.

// belowTheOld is a new CA of the user's as the old one has signed it, and the ca.crt
// with both.
func (w *world) belowTheOld(one pki.Authority) (pki.Authority, map[string][]byte) {
	w.t.Helper()
	two := caNamed(w.t, ownTwo, 900*authority.Day)
	signed, err := pki.CrossSign(one, two.Certificate(), w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return two, map[string][]byte{authority.CertKey: pki.EncodeBundle(signed, one.Certificate())}
}

func TestReadersOfCaCrtAloneAreServedWhereAUsersOldCAHasSignedTheNewOne(t *testing.T) {
	t.Parallel()
	w, one := corporate(t)
	w.without[readsFirst] = true // nodes present the old CA for a while, and it stands second
	w.pin()
	two, chain := w.belowTheOld(one)

	w.replaceOwn(two, "1", chain)
	w.settle()

	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")
	w.wantRestarts(2)
	w.wantReady()

	// Once the new CA stands there by itself, what the old one has signed is still sent
	// along, for those who have pinned the old one.
	w.replaceOwn(two, "2", nil)
	w.settle()

	w.wantRoles(" replication-9091", "presents corporate two cross-signed by corporate one, trusts corporate two")
	w.wantReady()
}

// saidOf finds what the plan says of a kind of client.
func (w *world) saidOf(client string) rotation.Outlook {
	w.t.Helper()
	var recorded corev1.ConfigMap
	w.get(rotation.ConfigMapName(clusterName), &recorded)
	record, err := authorities.Words().Parse(recorded.BinaryData[rotation.Key(string(authorities.Cluster))])
	if err != nil {
		w.t.Fatal(err)
	}
	ahead := record.Ahead(w.clock.Now())
	at := slices.IndexFunc(ahead.Clients, func(o rotation.Outlook) bool { return o.Client == client })
	if at < 0 {
		w.t.Fatalf("nothing is said of a client that %s: %+v", client, ahead.Clients)
	}
	return ahead.Clients[at]
}

func TestThePlanTellsWhichReadersOfAUsersSecretAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replace func(w *world, one pki.Authority)
		refused string
	}{
		"a new key, and the old CA in an entry beside it": {func(w *world, _ pki.Authority) {
			w.renames(caNamed(w.t, ownTwo, 900*authority.Day), "1")
		}, "reads ca.crt alone"},
		"the same key under another subject, and the old CA in an entry beside it": {func(w *world, one pki.Authority) {
			w.renames(w.renamed(one, ownTwo), "1")
		}, "reads ca.crt alone"},
		"a new key alone": {func(w *world, _ pki.Authority) {
			w.replaceOwn(caNamed(w.t, ownTwo, 900*authority.Day), "1", nil)
		}, "reads ca.crt or every *.crt"},
		"a new key that the old CA has signed": {func(w *world, one pki.Authority) {
			two, chain := w.belowTheOld(one)
			w.replaceOwn(two, "1", chain)
		}, "reads the first entry of ca.crt alone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, one := corporate(t)
			w.nobodyReads()
			test.replace(w, one)
			w.run(2)

			if said := w.saidOf(test.refused); !said.Notices || !strings.Contains(said.What, "rejects nodes that present corporate one") {
				t.Errorf("the plan says %+v", said)
			}
			w.wantCondition("ClusterCATrust", "rejects nodes that still present corporate one")
		})
	}
}
