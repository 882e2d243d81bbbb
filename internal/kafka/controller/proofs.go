package controller

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// A proof certificate is stored beside the node certificate and can do less: Kafka grants its
// name no permissions, and no peer accepts it as a server certificate.
const (
	proofCommonName = "keyturn-proof"
	proofValidity   = 7 * authority.Day
	// proofRenewal is how long before its end it is reissued: long enough for an
	// operator that is away.
	proofRenewal = 3 * authority.Day
)

func proofKey() pki.KeyParams { return pki.KeyParams{Algorithm: pki.ECDSA, Size: 256} }

// proofs puts a leaf of each anchor into the data of a node's Secret that the node
// needs to prove what it trusts, and returns the leaves by the keys that signed them.
// Where names tell anchors apart it needs none. Of an anchor whose key is kept
// elsewhere there is none; where an issuer keeps it, one that the node has had or is
// offered has to do.
func (c *decided) proofs(ctx context.Context, node model.Node, own leaf, trusts map[publication.Role][]string,
	data map[string][]byte,
) (map[pki.KeyID]*x509.Certificate, error) {
	listening, stored := c.listeningTo(node, trusts), c.stored(node.Pod).Data
	leaves := map[pki.KeyID]*x509.Certificate{}
	for _, kind := range kinds() {
		d := c.domain(kind)
		for _, anchor := range publication.InDoubt(domainOf(kind), d.Known, listening) {
			key := pki.KeyIDOf(anchor)
			entry := publication.ProofEntry(key.String())
			present := authority.StoredLeaf{Certificates: stored[entry+".crt"], Key: stored[entry+".key"]}
			signer, _ := d.SignerOf(key)
			ca, err := pki.NewAuthority(anchor, signer.Key())
			var proof *authority.Leaf
			switch {
			case err == nil:
				if proof, err = c.proof(ctx, node.Pod, ca, present); err != nil {
					return nil, err
				}
			case d.issuance() == trust.Offered && kind == authorities.Cluster: // nothing else can be issued
				before := authority.StoredLeaf{Certificates: stored[node.Pod+".crt"], Key: stored[node.Pod+".key"]}
				proof = c.proofAmong(anchor, present, own.StoredLeaf, before, own.offered)
			}
			if proof != nil {
				data[entry+".crt"], data[entry+".key"], leaves[key] = proof.Certificates, proof.Key, proof.Chain[0]
			}
		}
	}
	return leaves, nil
}

// proofAmong is the first of some leaves that the anchor verifies, by itself; nil without one.
func (o *observation) proofAmong(anchor *x509.Certificate, leaves ...authority.StoredLeaf) *authority.Leaf {
	for _, stored := range leaves {
		chain, err := pki.ParseChain(stored.Certificates)
		if err != nil || pki.Verify(chain[:1], []*x509.Certificate{anchor}, o.now, pki.ClientAuth) != nil {
			continue
		}
		if key, err := pki.ParsePrivateKey(stored.Key); err != nil || !key.Matches(chain[0]) {
			continue
		}
		return &authority.Leaf{
			StoredLeaf: authority.StoredLeaf{Certificates: pki.EncodeBundle(chain[0]), Key: stored.Key}, Chain: chain[:1],
		}
	}
	return nil
}

// listeningTo is what the listeners of a node may have loaded, and are given now.
func (c *polled) listeningTo(node model.Node, trusts map[publication.Role][]string) publication.Listening {
	reported := c.reports[node.Pod]
	_, runs := c.pods[node.Pod]
	return publication.Listening{
		Stores: c.listening(node), Trust: trusts, Previous: c.published(node.Pod), Report: reported.report,
		Settled: !runs || reported.known && c.settled(node.Pod, reported.report),
	}
}

// proof keeps a leaf that lasts, or has the authority sign another. The result is nil
// when it may not: one that has ended proves nothing.
func (o *observation) proof(ctx context.Context, secret string, ca pki.Authority, present authority.StoredLeaf) (*authority.Leaf, error) {
	in := authority.LeafInput{
		Stored: present, Window: authority.Window{Open: true}, Now: o.now,
		Want: authority.WantedLeaf{
			Subject: pki.Subject{CommonName: proofCommonName}, Key: proofKey(), Authority: ca,
			Validity: proofValidity, Renewal: proofRenewal,
		},
	}
	decision := authority.DecideLeaf(in)
	if decision.Act == authority.ReissueLeaf {
		var err error
		in.Answer, err = ownca.New(ca).Issue(ctx, issuer.Request{
			Name: secret, Subject: in.Want.Subject, Usages: []pki.Usage{pki.ClientAuth}, Validity: in.Want.Validity,
			Renewal: in.Want.Renewal, Key: in.Want.Key, Now: o.now,
		})
		if err != nil {
			return nil, fmt.Errorf("issuing a leaf for proofs of Secret %s: %w", secret, err)
		}
		decision = authority.DecideLeaf(in)
	}
	o.wake(decision.RenewalAt)
	if decision.Act == authority.HoldLeaf {
		decision.Leaf = nil
	}
	return decision.Leaf, nil
}
