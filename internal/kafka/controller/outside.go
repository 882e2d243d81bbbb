package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Warnings about a CA that is an issuer's.
const (
	// reasonCertificateIssuer: what its issuer has left behind cannot be taken away.
	reasonCertificateIssuer = "CertificateIssuer"
	// reasonFeatureGate: the cluster uses a feature whose gate is off.
	reasonFeatureGate = "FeatureGateDisabled"
	// reasonSharedIssuer: others may obtain certificates of the CA that nodes trust.
	reasonSharedIssuer = "SharedIssuer"
	// reasonShortLived: an issuer gives certificates that last shorter than asked for.
	reasonShortLived = "CertificateShortLived"
)

// turnOnGate says how people turn the gate on.
const turnOnGate = "start the operator with STRIMZI_FEATURE_GATES=+CertManagerCaType, or with featureGates=[+CertManagerCaType] in its chart"

// issuedSuffix is the end of the name of the Secret in which an issuer leaves a certificate, after the name of the
// Secret that it is copied to.
const issuedSuffix = "-cm"

// OutsideIssuer is an issuer that holds the key of a CA, and what it issues certificates for.
type OutsideIssuer struct {
	Namespace string
	Issuer    model.IssuerRef
	// Owner is the Kafka, for everything that is made for it. Secrets are left alone where OwnsSecrets is false.
	Owner       metav1.OwnerReference
	OwnsSecrets bool
	// Labels are put on what is made for the Kafka.
	Labels map[string]string
}

// OutsideIssuers makes issuers. As a source it has a Kafka looked at when what its issuer was asked for changes, or can
// be asked for.
type OutsideIssuers interface {
	source.Source

	IssuerOf(OutsideIssuer) issuer.Renewer
	// Refer notes that a Kafka asks an issuer, and Forget that it does no more.
	Refer(kafka types.NamespacedName)
	Forget(kafka types.NamespacedName)
	// Sweep deletes what issuers have left for a Kafka that is gone, and that refers to nothing.
	Sweep(ctx context.Context, kafka types.NamespacedName) error
}

// observeOffered reads the operator's certificate as its issuer has issued it last: all of a cluster come from one issuer.
func (r *Reconciler) observeOffered(ctx context.Context, o *observation) error {
	if _, _, uses := model.CertManagerIssuer(o.kafka.Spec.ClusterCa); !uses {
		return nil
	}
	var secret corev1.Secret
	exists, err := r.getLive(ctx, o, o.kafka.Name+operatorSecretSuffix+issuedSuffix, &secret)
	if err != nil || !exists {
		return err
	}
	if chain, err := pki.ParseChain(secret.Data[corev1.TLSCertKey]); err == nil {
		o.offered = chain
	}
	return nil
}

// bundleOf is where the CAs of an issuer come from.
func (o *observation) bundleOf(kind authorities.Kind) *authority.Bundle {
	_, caCert, uses := model.CertManagerIssuer(o.caSpec(kind))
	if !uses {
		return nil
	}
	read := o.referenced[caCert.Secret]
	bundle := &authority.Bundle{Secret: caCert.Secret, Entry: caCert.Key, Stored: read.stored, Unread: read.unread[caCert.Key]}
	if kind == authorities.Cluster {
		bundle.Offered = o.offered // what is issued to users is not read here
	}
	return bundle
}

// refusesOutside says why the CA of an issuer is not used; nil when it is.
func (r *Reconciler) refusesOutside(c *desired, kind authorities.Kind) []authority.Problem {
	if _, _, uses := model.CertManagerIssuer(c.caSpec(kind)); !uses {
		return nil
	}
	field := kind.Names(c.kafka.Name).Field + ".type"
	if r.options.Gates.CertManagerCaType == featuregate.On || runsOnIssuer(c, kind) {
		return nil
	}
	return []authority.Problem{{
		Object: field, Wrong: "cert-manager.io needs feature gate CertManagerCaType, which is off", Remedy: turnOnGate,
	}}
}

// runsOnIssuer reports whether the cluster runs on the CAs of an issuer, which were copied for it: ca.crt does not begin with
// that of a key at hand, or a node presents a certificate of the issuer already. A user's is put there by hand, and nothing
// takes the note of the copy away.
func runsOnIssuer(c *desired, kind authorities.Kind) bool {
	secret := c.secrets[kind.CertSecret(c.kafka.Name)]
	if secret.Annotations[authorities.CertHashAnnotation] == "" {
		return false
	}
	_, err := pki.KeyPair(secret.Data[authority.CertKey], c.secrets[kind.KeySecret(c.kafka.Name)].Data[authority.KeyKey])
	if err != nil || kind != authorities.Cluster {
		return err != nil
	}
	bundle, err := pki.ParseBundle(c.bundleOf(kind).Text())
	return err == nil && anyPresents(c, func(chain []*x509.Certificate) bool {
		return slices.ContainsFunc(bundle, func(ca *x509.Certificate) bool { return verifiesChain(ca, chain, c.now) })
	})
}

// noteGate warns of a cluster that runs on an issuer although the gate is off.
func (r *Reconciler) noteGate(c *desired) {
	runs := slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		_, _, uses := model.CertManagerIssuer(c.caSpec(kind))
		return uses && runsOnIssuer(c, kind)
	})
	if runs && r.options.Gates.CertManagerCaType == featuregate.Off {
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonFeatureGate,
			"feature gate CertManagerCaType is off, but the certificates of this cluster come from cert-manager and are still adopted. "+
				"Without the rights that the chart grants with the gate, no Certificate is created, changed or deleted: "+turnOnGate)
	}
}

// noteSharedIssuer warns of an issuer from which others may obtain certificates that nodes accept as those of a node.
func noteSharedIssuer(o *observation, kind authorities.Kind) {
	ref, caCert, uses := model.CertManagerIssuer(o.caSpec(kind))
	if !uses {
		return
	}
	var shared string
	if upper := o.bundleOf(kind).Upper(); len(upper) > 0 {
		shared = fmt.Sprintf("Secret %s holds the CA %q, which has signed another CA of the bundle, so that the issuer may be used by others.", caCert.Secret, upper[0].Subject)
	}
	if ref.OfEveryNamespace() {
		shared = "ClusterIssuer " + ref.Name + " can be used from every namespace."
	}
	if shared != "" {
		o.note("Kafka "+o.kafka.Namespace+"/"+o.kafka.Name, reasonSharedIssuer, shared+" "+sharedIssuerRisk(kind))
	}
}

// sharedIssuerRisk says what others can do with a certificate of the issuer, and how to prevent it.
func sharedIssuerRisk(kind authorities.Kind) string {
	if kind == authorities.Clients {
		return "Nodes accept every certificate of its CA as that of the user that it names, and one of CN=" + operatorCommonName +
			",O=" + model.Organization + " as that of a super user. " +
			"Use an Issuer for this cluster alone, or reserve these subjects with a CertificateRequestPolicy."
	}
	return "Nodes accept every certificate of its CA with the organization " + model.Organization + " as that of a node. " +
		"Use an Issuer for this cluster alone, or reserve the organization with a CertificateRequestPolicy."
}

// outsideIssuer is the issuer of the leaves of the cluster. What it makes gets the labels.
func (r *Reconciler) outsideIssuer(o *observation, labels map[string]string) issuer.Renewer {
	ref, _, _ := model.CertManagerIssuer(o.caSpec(authorities.Cluster))
	r.options.Outside.Refer(client.ObjectKeyFromObject(&o.kafka))
	return r.options.Outside.IssuerOf(OutsideIssuer{
		Namespace: o.kafka.Namespace, Issuer: ref, Owner: ownerReferences(&o.kafka)[0], OwnsSecrets: o.ownsCASecrets(authorities.Cluster),
		Labels: labels,
	})
}

// offeredLeaf adopts what the issuer offers, or keeps the stored leaf.
func (r *Reconciler) offeredLeaf(ctx context.Context, c *applied, request leafRequest, in authority.LeafInput) authority.LeafDecision {
	in.Want.Anchors = c.clusterCA.ofKeys(request.identity.Signer)
	in.Want.Interim = c.clusterCA.ofKeys(request.interim...)
	if named, err := pki.ParseBundle(c.bundleOf(authorities.Cluster).Text()); err == nil {
		in.Want.Named = named
	}
	asked := r.outsideIssuer(c.observation, request.labels)
	in.Answer = askOf(ctx, asked, c.observation, request, in.Want)
	if issued, is := in.Answer.(issuer.Issued); is && renewalIsDue(c.decided, request, issued.Chain) {
		renewOffered(ctx, c.decided, asked, request.secret, issued.Chain[0])
	}
	if issued, is := in.Answer.(issuer.Issued); is && request.secret == c.kafka.Name+operatorSecretSuffix {
		noteShortLife(c.observation, request.of(in.Want, c.now), issued.Chain[0])
	}
	decision := authority.DecideOffered(in)
	if overdue := &decision.State.Request; overdue.Status == authority.RequestOverdue {
		overdue.Why += ": check that cert-manager runs, and what the status of Certificate " + request.secret + " says"
	}
	return decision
}

// renewOffered has the issuer sign with the CA that all trust from now on, and tells when it does not.
func renewOffered(ctx context.Context, c *decided, asked issuer.Renewer, secret string, present *x509.Certificate) {
	target := pki.FingerprintOf(c.clusterCA.Target())
	renewed, err := asked.Renew(ctx, secret, issuer.Renewal{Present: present, Target: target.String()}, c.now)
	c.wake(renewed.Next)
	switch {
	case err != nil:
		c.note("Secret "+secret, reasonCertificateIssuer, "a certificate of another CA could not be requested, and this is tried again: "+err.Error())
	case renewed.InVain:
		c.note("Secret "+secret, reasonCertificateIssuer, fmt.Sprintf("Certificate %s was to be issued again by another CA, and the issuer has signed with the one from before. "+
			"It is requested again at %s: have the issuer sign with %q", secret, renewed.Next.UTC().Format(time.RFC3339), c.clusterCA.Target().Subject))
	}
}

// shortfallPatience is how much shorter a certificate may last than asked for without mention: issuers backdate.
const shortfallPatience = time.Hour

// noteShortLife warns of an issuer that gives certificates for a shorter time than asked for, before that costs anything. All
// certificates of a cluster are asked for the same time.
func noteShortLife(o *observation, asked issuer.Request, issued *x509.Certificate) {
	if asked.Shortfall(issued) <= shortfallPatience {
		return
	}
	life := issued.NotAfter.Sub(issued.NotBefore)
	o.note("Kafka "+o.kafka.Namespace+"/"+o.kafka.Name, reasonShortLived, fmt.Sprintf(
		"the issuer gives certificates that last %s, and %s were requested. Each node is restarted once in that time, about %d times a year, "+
			"because its Raft client keeps the certificate that it was started with: have the issuer give what validityDays asks for, or lower that",
		life.Round(time.Minute), asked.Validity, max(1, int(365*authority.Day/life))))
}

// ofKeys are the known CA certificates of some keys.
func (d *domain) ofKeys(keys ...trust.KeyID) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(d.Known), func(cert *x509.Certificate) bool { return !slices.Contains(keys, evidence.KeyID(cert)) })
}

// renewalIsDue reports whether a leaf is to be issued again, because all trust another CA that is to sign from now on, or
// because an intermediate that is presented with it ends first. Until the issuer is known to have another CA it is asked for one
// node alone.
func renewalIsDue(c *decided, request leafRequest, issued []*x509.Certificate) bool {
	target := c.clusterCA.Target()
	if target == nil || request.identity.Signer != evidence.KeyID(target) {
		return false
	}
	if awaitsItsCA(c, issued) {
		return false
	}
	isOfTarget := verifiesChain(target, issued, c.now)
	again := authority.ReissueAt(issued, model.CASpec(c.caSpec(authorities.Cluster)).Usable().Renewal())
	if isOfTarget && (again.IsZero() || c.now.Before(again)) {
		return false
	}
	isBetter := func(chain []*x509.Certificate) bool {
		return verifiesChain(target, chain, c.now) && (!isOfTarget || pki.EarliestEnd(chain).After(pki.EarliestEnd(issued)))
	}
	nodes := c.allNodes()
	return isBetter(c.offered) || anyPresents(c.desired, isBetter) || len(nodes) > 0 && request.secret == nodes[0].Pod
}

// awaitsItsCA reports whether a leaf was issued by a CA that caCert does not name. CertificateNotAdopted reports that. Validity
// does not matter: a leaf below an intermediate that has expired is of a known CA.
func awaitsItsCA(c *decided, issued []*x509.Certificate) bool {
	return !slices.ContainsFunc(c.clusterCA.Known, func(ca *x509.Certificate) bool {
		return slices.ContainsFunc(issued, func(cert *x509.Certificate) bool { return pki.SignedBy(cert, ca) })
	})
}

func verifiesChain(ca *x509.Certificate, chain []*x509.Certificate, now time.Time) bool {
	return len(chain) > 0 && pki.Verify(chain, []*x509.Certificate{ca}, now) == nil
}

// anyPresents reports whether the chain that any node is given to present is wanted.
func anyPresents(c *desired, isWanted func(chain []*x509.Certificate) bool) bool {
	return slices.ContainsFunc(c.allNodes(), func(n model.Node) bool { return isWanted(c.presents(n.Pod, n.Pod+".crt")) })
}

// withdrawRequests takes away what was asked of the issuer for nodes and companions that are gone.
func (r *Reconciler) withdrawRequests(ctx context.Context, c *applied) error {
	if c.clusterCA.issuance() != trust.Offered || c.isDegraded() || r.options.Gates.CertManagerCaType == featuregate.Off {
		return nil
	}
	keep := []string{c.kafka.Name + operatorSecretSuffix}
	for _, node := range c.allNodes() {
		keep = append(keep, node.Pod)
	}
	for _, at := range c.companions {
		keep = append(keep, at.Secret)
	}
	slices.Sort(keep)
	if err := r.outsideIssuer(c.observation, nil).Withdraw(ctx, keep); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("withdrawing requests for certificates: %w", err)
		}
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonCertificateIssuer, "requests for certificates of nodes that are gone could not be withdrawn, and this is tried again: "+err.Error())
	}
	return nil
}
