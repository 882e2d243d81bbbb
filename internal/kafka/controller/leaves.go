package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Keys and common name of the operator's own identity.
const (
	operatorSecretSuffix = "-cluster-operator-certs"
	operatorCertKey      = "cluster-operator.crt"
	operatorKeyKey       = "cluster-operator.key"
	operatorCommonName   = "cluster-operator"
)

// Reasons of warnings about leaves.
const (
	// reasonCertificatePending: an issuer has not granted it yet.
	reasonCertificatePending = "CertificatePending"
	// reasonCertificatePostponed: it is due and waits for a maintenance window.
	reasonCertificatePostponed = "CertificatePostponed"
	// reasonCertificateHeld: it is due and no CA can sign it.
	reasonCertificateHeld = "CertificateHeld"
	// reasonCertificateNotAdopted: its issuer has issued one that not all peers verify, or not what was asked for.
	reasonCertificateNotAdopted = "CertificateNotAdopted"
	// reasonNodeHeld: a node exists and cannot be given any.
	reasonNodeHeld = "NodeWithoutCertificate"
)

// AwaitedCertificates are the reasons of the Warnings by which a Kafka says that certificates which a rotation needs are not
// issued or not adopted.
func AwaitedCertificates() []string {
	return []string{reasonCertificatePending, reasonCertificatePostponed, reasonCertificateHeld, reasonCertificateNotAdopted, reasonCertificateIssuer}
}

// issuerPause is how soon an issuer that has not answered is asked again.
const issuerPause = 30 * time.Second

// leafRequest is a leaf as it shall be, and where it is kept.
type leafRequest struct {
	// secret and the keys in it.
	secret, certKey, keyKey string
	// labels are those of the Secret, and of what an issuer keeps the certificate in.
	labels  map[string]string
	subject pki.Subject
	sans    pki.SANs
	// identity is who signs, and which cross certificates are sent along.
	identity trust.Identity
	// interim are the keys of which an issuer may offer a leaf until then, see trust.Plan.
	interim []trust.KeyID
	// waits says why a leaf that serves stays for now, see authority.LeafInput.
	waits string
}

// leaf is a certificate with its key as the Secret shall hold them.
type leaf struct {
	authority.Leaf

	generation authority.Generation
	// offered is what its issuer has issued and nothing presents yet; empty without.
	offered authority.StoredLeaf
}

// settleLeaf keeps the stored leaf or has a new one issued. A stored leaf stays while its issuer has not issued another
// one. The result is false without one, or where an object of another owner has the name of the Secret.
func (r *Reconciler) settleLeaf(ctx context.Context, c *applied, request leafRequest) (leaf, bool, error) {
	if c.isForeign(secretObject(request.secret)) {
		return leaf{}, false, nil
	}
	stored := c.stored(request.secret)
	present := authority.StoredLeaf{Certificates: stored.Data[request.certKey], Key: stored.Data[request.keyKey]}
	in := authority.LeafInput{Stored: present, Want: c.wantedLeaf(request, present), Window: c.window, Waits: request.waits, Now: c.now}
	decide := r.heldLeaf
	if c.clusterCA.issuance() == trust.Offered {
		decide = r.offeredLeaf
	}
	decision := decide(ctx, c, request, in)
	if err := ctx.Err(); err != nil {
		return leaf{}, false, fmt.Errorf("issuing the certificate of Secret %s: %w", request.secret, err)
	}
	c.wake(decision.RenewalAt)
	c.wake(decision.Until)
	c.noteLeaf(request, decision)
	if decision.Leaf == nil {
		return leaf{}, false, nil
	}
	if decision.Act == authority.AdoptLeaf {
		c.issued[request.secret] = decision // it is told of once it is written
	}
	settled := leaf{Leaf: *decision.Leaf, generation: c.generationOf(decision.Leaf.Chain, stored)}
	if offered := decision.State.Offered; offered != nil {
		settled.offered = offered.StoredLeaf
	}
	return settled, true, nil
}

// heldLeaf keeps the stored leaf, or has another one signed by a key that is held.
func (r *Reconciler) heldLeaf(ctx context.Context, c *applied, request leafRequest, in authority.LeafInput) authority.LeafDecision {
	decision := authority.DecideLeaf(in)
	if decision.Act == authority.ReissueLeaf {
		in.Answer = askOf(ctx, r.options.Issuer(in.Want.Authority), c.observation, request, in.Want)
		decision = authority.DecideLeaf(in)
	}
	return decision
}

// wantedLeaf is the leaf as it shall be, with what is presented along with it.
func (c *decided) wantedLeaf(request leafRequest, present authority.StoredLeaf) authority.WantedLeaf {
	spec := model.CASpec(c.caSpec(authorities.Cluster)).Usable()
	want := authority.WantedLeaf{
		Subject: request.subject, SANs: request.sans, Key: spec.LeafKey(),
		Usages: pki.BothUsages(), Validity: spec.Validity(), Renewal: spec.Renewal(),
	}
	signer, found := c.clusterCA.signer(request.identity.Signer)
	if !found {
		return want
	}
	want.Authority = signer
	stored, err := pki.ParseBundle(present.Certificates)
	if err != nil {
		stored = nil
	}
	if c.clusterCA.Held {
		want.Chain = afterLeaf(stored) // it is unknown what else belongs there
		return want
	}
	want.Chain = c.clusterCA.SentAlong(request.identity, stored)
	if spec.Source == authority.UserProvided {
		presents := signer.Presents()
		among := func(cross *x509.Certificate) bool { return slices.ContainsFunc(presents, cross.Equal) }
		want.Chain = slices.Concat(presents, slices.DeleteFunc(want.Chain, among))
	}
	return want
}

// afterLeaf is what is presented after a leaf.
func afterLeaf(chain []*x509.Certificate) []*x509.Certificate {
	if len(chain) == 0 {
		return nil
	}
	return chain[1:]
}

// generationOf is what annotations say of a leaf that stays: the generation of
// the CA that signed it, or what they said so far.
func (c *decided) generationOf(chain []*x509.Certificate, stored authority.Stored) authority.Generation {
	if target := c.clusterCA.Target(); target != nil && c.clusterCA.issuance() == trust.Offered && pki.Verify(chain, []*x509.Certificate{target}, c.now) == nil {
		return c.clusterCA.GenerationOf(target)
	}
	for _, ca := range c.clusterCA.Keys {
		if pki.IssuedBy(chain[0], ca.Certificate()) {
			return c.clusterCA.GenerationOf(ca.Certificate())
		}
	}
	return generation(stored.Annotations[authorities.ClusterCertGenerationAnnotation])
}

// leafAnnotations are those of a Secret with a leaf. One that an issuer has offered is named by its hash, too.
func leafAnnotations(c *decided, l leaf) map[string]string {
	annotations := map[string]string{authorities.ClusterCertGenerationAnnotation: l.generation.String()}
	if c.clusterCA.issuance() == trust.Offered {
		annotations[model.ServerCertHashAnnotation] = pki.SHA1Name(l.Chain[0])
	}
	return annotations
}

// noteLeaf tells people about a leaf that is due and is not issued yet.
func (c *decided) noteLeaf(request leafRequest, decision authority.LeafDecision) {
	object := "Secret " + request.secret
	switch decision.Act {
	case authority.PostponeLeaf:
		message := "the certificate is due for renewal (" + decision.Detail + ") and will be issued in the next maintenance window"
		if !decision.Until.IsZero() {
			message += ", or at " + decision.Until.UTC().Format(time.RFC3339) + " at the latest"
		}
		c.note(object, reasonCertificatePostponed, message)
	case authority.HoldLeaf:
		if decision.State.Request.Status == authority.RequestPending {
			c.wake(c.now.Add(issuerPause))
		}
		reason, message := whyHeld(c.kafka.Name, decision, c.clusterCA.ofKeys(request.identity.Signer))
		c.note(object, reason, message)
	case authority.KeepLeaf, authority.ReissueLeaf, authority.RechainLeaf, authority.AdoptLeaf:
	}
}

// whyHeld is the warning about a leaf that is due and cannot be issued now.
func whyHeld(kafka string, decision authority.LeafDecision, signers []*x509.Certificate) (reason, message string) {
	inForce, why := decision.State.InForce, decision.State.Request.Why
	switch {
	case decision.State.Request.Status != authority.NoRequest && inForce == nil:
		return reasonCertificatePending, "no certificate is issued (" + why + "), and there is no existing one"
	case decision.State.Request.Status != authority.NoRequest:
		return reasonCertificatePending, "no new certificate is issued (" + why + "); the existing one, valid until " +
			pki.EarliestEnd(inForce.Chain).UTC().Format(time.RFC3339) + ", stays in use"
	case inForce == nil && decision.State.Offered != nil:
		return reasonCertificateNotAdopted, decision.Detail + ", and there is no existing one" + signAgain(signers)
	case inForce == nil:
		return reasonCertificateHeld, "the certificate is missing, and none can be issued that other nodes trust (" + decision.Detail +
			"): restore this Secret, or the key in Secret " + authorities.Cluster.KeySecret(kafka) + "; the node keeps what it has loaded"
	case decision.State.Offered != nil:
		return reasonCertificateNotAdopted, decision.Detail + "; the existing one stays in use"
	default:
		return reasonCertificateHeld, "the certificate cannot be reissued (" + decision.Detail + "); the existing one stays in use"
	}
}

// signAgain is what gets a leaf that is lost while its issuer signs by a CA that not all trust.
func signAgain(signers []*x509.Certificate) string {
	if len(signers) == 0 {
		return ""
	}
	return fmt.Sprintf(": have the issuer sign with the CA %q until all nodes trust the next one", signers[0].Subject)
}

// askOf asks an issuer for a leaf. What fails at the issuer may pass by itself: the request is pending then, and the
// certificates of others are written.
func askOf(ctx context.Context, signs issuer.Issuer, o *observation, request leafRequest, want authority.WantedLeaf) issuer.Outcome {
	outcome, err := signs.Issue(ctx, request.of(want, o.now))
	if err != nil {
		return issuer.Pending{Since: o.now, Why: err.Error()}
	}
	return outcome
}

// of is the request as issuers are asked.
func (r leafRequest) of(want authority.WantedLeaf, now time.Time) issuer.Request {
	return issuer.Request{
		Name: r.secret, Subject: want.Subject, SANs: want.SANs, Usages: want.Usages,
		Validity: want.Validity, Renewal: want.Renewal,
		Key: want.Key, Now: now,
	}
}

// applyOperatorIdentity writes the operator's own certificate. Where that fails, it keeps the one that is stored.
func (r *Reconciler) applyOperatorIdentity(ctx context.Context, c *applied) error {
	defer func() { c.operator = c.storedIdentity() }()
	name := c.kafka.Name + operatorSecretSuffix
	identity, labels := c.operatorIdentity(), c.cluster.ComponentLabels(model.OperatorComponent())
	settled, found, err := r.settleLeaf(ctx, c, leafRequest{
		secret: name, certKey: operatorCertKey, keyKey: operatorKeyKey, labels: labels,
		subject:  pki.Subject{Organization: model.Organization, CommonName: operatorCommonName},
		identity: identity, interim: operatorInterim(c.decided), waits: c.clusterCA.operatorWaitsFor(identity.Signer),
	})
	if err != nil || !found {
		return err
	}
	return r.writeSecret(ctx, c, kube.SecretIntent{
		Namespace: c.kafka.Namespace, Name: name,
		Labels:      labels,
		Annotations: leafAnnotations(c.decided, settled),
		Owners:      ownerReferences(&c.kafka),
		Data:        map[string][]byte{operatorCertKey: settled.Certificates, operatorKeyKey: settled.Key},
	})
}

// storedIdentity is the operator's identity that is stored; the zero value without one.
func (o *observation) storedIdentity() operatorIdentity {
	data := o.secrets[o.kafka.Name+operatorSecretSuffix].Data
	stored, err := identityOf(data[operatorCertKey], data[operatorKeyKey])
	if err != nil {
		return operatorIdentity{}
	}
	return stored
}

// leaves are what others know the operator by; none while it has no certificate.
func (i operatorIdentity) leaves() []*x509.Certificate {
	if i.leaf == nil {
		return nil
	}
	return []*x509.Certificate{i.leaf}
}

// operatorWaitsFor is why the operator, whose certificate all nodes must verify, is not issued
// another one of the key now; empty when all members use an anchor of that key.
func (d *domain) operatorWaitsFor(key trust.KeyID) string {
	for _, anchor := range d.Snapshot.Anchors {
		if anchor.Key == key && d.Plan.States[anchor.ID] == trust.InUseAll {
			return ""
		}
	}
	return "it waits until all nodes use the same CA"
}

// operatorIdentity is the key that signs the operator's own certificate. If that is lost or of
// an unknown CA, and the planned key is not available, another key signs the next one.
// The operator is cut off already, and agents recognize the new one by what is published to them.
func (c *decided) operatorIdentity() trust.Identity {
	d := &c.clusterCA
	planned := d.Plan.Publications[evidence.OperatorMember].Identity
	if _, signs := d.signer(planned.Signer); signs {
		return planned
	}
	chain := c.presents(c.kafka.Name+operatorSecretSuffix, operatorCertKey)
	isOf := func(ca *x509.Certificate) bool { return pki.IssuedBy(chain[0], ca) }
	if len(chain) > 0 && slices.ContainsFunc(d.Known, isOf) {
		return planned
	}
	return trust.Identity{Signer: d.atHand(planned.Signer)}
}

// operatorInterim are the keys of which the operator may be given a leaf until the planned one. One that is lost cuts it
// off already: it takes what there is, and agents know the leaf by what is published to them.
func operatorInterim(c *decided) []trust.KeyID {
	if c.storedIdentity().leaf != nil {
		return c.clusterCA.Plan.Interim[evidence.OperatorMember]
	}
	keys := make([]trust.KeyID, 0, len(c.clusterCA.Known))
	for _, cert := range c.clusterCA.Known {
		keys = append(keys, evidence.KeyID(cert))
	}
	return keys
}

// atHand is the key of who signs in place of one that cannot: that of the authority to
// come, or else of the present one, or, where the keys of both are lost, any other that
// there is. Without any it is the one that cannot.
func (d *domain) atHand(instead trust.KeyID) trust.KeyID {
	for _, cert := range []*x509.Certificate{d.Target(), d.Certificate} {
		if cert == nil {
			continue
		}
		if _, signs := d.signer(evidence.KeyID(cert)); signs {
			return evidence.KeyID(cert)
		}
	}
	if len(d.Keys) > 0 {
		return evidence.KeyID(d.Keys[0].Certificate())
	}
	return instead
}

// identityOf turns a stored leaf into something that can be presented.
func identityOf(certificates, key []byte) (operatorIdentity, error) {
	certificate, err := pki.KeyPair(certificates, key)
	if err != nil {
		return operatorIdentity{}, fmt.Errorf("reading the operator's identity: %w", err)
	}
	return operatorIdentity{certificate: certificate, leaf: certificate.Leaf}, nil
}
