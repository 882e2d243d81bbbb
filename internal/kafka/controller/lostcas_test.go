package controller

import (
	"crypto/x509"
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// keepingTrust is a reconcile over a cluster with a pod, whose authorities have all their Secrets.
func keepingTrust(ca pki.Authority) *applied {
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{"a": readyPod("a")})
	c.secrets = map[string]corev1.Secret{}
	text := pki.EncodeBundle(ca.Certificate())
	for _, kind := range kinds() {
		c.secrets[kind.CertSecret("my")] = corev1.Secret{Data: map[string][]byte{authority.CertKey: text}}
		c.secrets[kind.TrustedCertsSecret("my")] = corev1.Secret{Data: map[string][]byte{
			pki.SHA1Name(ca.Certificate()) + ".crt": text, pki.SHA1Name(ca.Certificate()) + ".state": []byte(trust.InUseAll),
		}}
	}
	return c
}

// Only where something was lost may what nodes say count.
func TestNodesAreBelievedOnlyWhereTheSecretsOfAnAuthorityAreLost(t *testing.T) {
	t.Parallel()
	ca, users := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "users", noon())
	known := map[authorities.Kind]pki.Authority{authorities.Cluster: ca, authorities.Clients: users}
	for name, c := range map[string]struct {
		change func(p *applied)
		lost   bool
		// believed are those of whose authority nodes are believed.
		believed []authorities.Kind
	}{
		"nothing is lost":                         {func(*applied) {}, false, nil},
		"the anchors of one are":                  {func(p *applied) { delete(p.secrets, "my-clients-ca-trusted-certs") }, true, []authorities.Kind{authorities.Clients}},
		"the anchors are there, and hold nothing": {func(p *applied) { p.secrets["my-cluster-ca-trusted-certs"] = corev1.Secret{} }, true, []authorities.Kind{authorities.Cluster}},
		"the certificate of one is":               {func(p *applied) { delete(p.secrets, "my-cluster-ca-cert") }, true, []authorities.Kind{authorities.Cluster}},
		"everything is":                           {func(p *applied) { p.secrets = nil }, true, kinds()},
		"everything is, and no pod is left":       {func(p *applied) { p.secrets, p.pods = nil, nil }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := keepingTrust(ca)
			p.cluster.Nodes = []model.Node{{Pod: "a"}}
			p.reports = map[string]agentReport{"a": {last: saying(ca, users)}}
			c.change(p)
			if got := p.lostTrust(); got != c.lost {
				t.Errorf("trust is lost: %t", got)
			}
			for _, kind := range kinds() {
				var cas, leaves []*x509.Certificate
				if slices.Contains(c.believed, kind) {
					cas, leaves = []*x509.Certificate{known[kind].Certificate()}, []*x509.Certificate{ca.Certificate()}
				}
				evidence := p.dependence(kind)
				if !slices.EqualFunc(evidence.Reported, cas, (*x509.Certificate).Equal) || !slices.EqualFunc(evidence.Leaves, leaves, (*x509.Certificate).Equal) {
					t.Errorf("of the %s %d CAs and %d leaves are believed, want %d and %d", kind, len(evidence.Reported), len(evidence.Leaves), len(cas), len(leaves))
				}
			}
		})
	}
}

// saying is the report of a node that trusts one CA for nodes and another for users, and
// presents the first to everybody. It names a third, and does not show that.
func saying(nodes, users pki.Authority) publication.Report {
	shown := map[string][]byte{}
	show := func(ca pki.Authority) string {
		fingerprint := pki.FingerprintOf(ca.Certificate()).String()
		shown[fingerprint] = ca.Certificate().Raw
		return fingerprint
	}
	node, user := show(nodes), show(users)
	return publication.Report{Certificates: shown, Roles: map[publication.Role]publication.RoleReport{
		contract.ReplicationListener: {Trusts: []string{node, "hidden"}, Presents: node}, "tls-9093": {Trusts: []string{user}, Presents: node},
	}}
}

// Of a node that says nothing its Secret tells what it presents.
func TestWhatASilentNodePresentsIsReadFromItsSecret(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "cluster", noon())
	c := keepingTrust(ca)
	c.cluster.Nodes = []model.Node{{Pod: "a"}, {Pod: "without a Secret"}}
	c.secrets = map[string]corev1.Secret{"a": {Data: map[string][]byte{"a.crt": pki.EncodeBundle(ca.Certificate())}}}
	if leaves := c.dependence(authorities.Cluster).Leaves; len(leaves) != 1 || !leaves[0].Equal(ca.Certificate()) {
		t.Errorf("%d leaves are known, want the one in the Secret", len(leaves))
	}
}

// A CA that is lost is known by its name to those who were told to trust it.
func TestTheCAsThatNodesWereToldToTrustAreKnownByName(t *testing.T) {
	t.Parallel()
	one, two, three := pki.Fingerprint{1}, pki.Fingerprint{2}, pki.Fingerprint{3}
	c := keepingTrust(pkitest.CA(t, "cluster", noon()))
	c.cluster.Listeners = []model.Listener{{Name: "tls", Port: 9093, TLS: true}}
	c.cluster.Nodes = []model.Node{{Pod: "a", Roles: model.Roles{Broker: true}}, {Pod: "b", Roles: model.Roles{Broker: true}}}
	publishes := func(pod string, trusts map[publication.Role][]string) {
		text, err := json.Marshal(publication.Publication{Revision: 1, Trust: trusts})
		if err != nil {
			t.Fatal(err)
		}
		c.secrets[pod] = corev1.Secret{Data: map[string][]byte{agent.PublicationKey: text}}
	}
	publishes("a", map[publication.Role][]string{contract.ReplicationListener: {two.String(), "no fingerprint"}, "tls-9093": {three.String()}})
	publishes("b", map[publication.Role][]string{contract.ReplicationListener: {two.String(), one.String()}})

	for kind, want := range map[authorities.Kind][]pki.Fingerprint{authorities.Cluster: {one, two}, authorities.Clients: {three}} {
		if named := c.dependence(kind).Named; !slices.Equal(named, want) {
			t.Errorf("of the %s nodes were told of %v, want %v", kind, named, want)
		}
	}
}

// What nodes present after their leaves cross-signs a CA, and is kept nowhere else.
func TestWhatNodesSendAlongIsKnownOnce(t *testing.T) {
	t.Parallel()
	ca, cross := pkitest.CA(t, "cluster", noon()), pkitest.CA(t, "cross", noon())
	c := keepingTrust(ca)
	for _, pod := range []string{"a", "b"} {
		c.secrets[pod] = corev1.Secret{Data: map[string][]byte{pod + ".crt": pki.EncodeBundle(ca.Certificate(), cross.Certificate())}}
	}
	if sent := c.dependence(authorities.Cluster).Included; len(sent) != 1 || !sent[0].Equal(cross.Certificate()) {
		t.Errorf("%d certificates are sent along, want the one after the leaves", len(sent))
	}
	if sent := c.dependence(authorities.Clients).Included; len(sent) > 0 {
		t.Errorf("%d certificates cross-sign a CA of users", len(sent))
	}
}

// Without a certificate nobody can be asked, and what is lost of an authority may be known
// to nodes: nothing is begun then.
func TestNothingIsBegunWhileNodesCannotBeAsked(t *testing.T) {
	t.Parallel()
	const own = "my" + operatorSecretSuffix
	ca := pkitest.CA(t, "cluster", noon())
	for name, c := range map[string]struct {
		change func(p *applied)
		want   bool
	}{
		"there is no certificate, and the CA needs a person": {func(*applied) {}, true},
		"there is a certificate":                             {func(p *applied) { p.secrets[own] = corev1.Secret{} }, false},
		"somebody else's Secret stands there":                {func(p *applied) { p.foreign = []foreignObject{{objectID: secretObject(own)}} }, false},
		"the CA is well":                                     {func(p *applied) { p.clusterCA.Problems = nil }, false},
		"a key is at hand":                                   {func(p *applied) { p.clusterCA.Keys = []pki.Authority{ca} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clusterOf(smallKafka(), nil)
			p.secrets, p.clusterCA.Problems = map[string]corev1.Secret{}, []authority.Problem{{Object: "Secret my-cluster-ca"}}
			c.change(p)
			if got := p.cannotAsk(); got != c.want {
				t.Errorf("it cannot ask: %t", got)
			}
		})
	}
}
