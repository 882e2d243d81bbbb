package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	domains "github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/window"
)

func (o *observation) caSpec(kind authorities.Kind) *kafkav1.CertificateAuthority {
	if kind == authorities.Clients {
		return o.kafka.Spec.ClientsCa
	}
	return o.kafka.Spec.ClusterCa
}

// ownsCASecrets reports whether the authority's Secrets go when the Kafka goes.
func (o *observation) ownsCASecrets(kind authorities.Kind) bool {
	ca := o.caSpec(kind)
	return ca == nil || ca.GenerateSecretOwnerReference == nil || *ca.GenerateSecretOwnerReference
}

// stored returns a Secret as the deciding packages want it.
func (o *observation) stored(name string) authority.Stored {
	secret, exists := o.secrets[name]
	return authority.Stored{Exists: exists, Data: secret.Data, Annotations: secret.Annotations}
}

// openWindow is the state of the maintenance windows. An expression that cannot
// be read keeps them shut, and is named.
func (c *desired) openWindow() authority.Window {
	windows, err := window.Parse(c.kafka.Spec.MaintenanceTimeWindows)
	if err != nil {
		c.note("Kafka "+c.kafka.Namespace+"/"+c.kafka.Name, reasonWindows,
			"spec.maintenanceTimeWindows cannot be read, and counts as closed until you correct it: "+err.Error())
	}
	c.windows = windows.At(c.now)
	next, _ := c.windows.Opens()
	return authority.Window{Open: c.windows.Open(), Next: next}
}

// dependants are pods, those that pod sets describe, and leaf Secrets: what would be cut off
// if an authority were made again because its Secrets are gone, and what tells its generations.
func (o *observation) dependants(kind authorities.Kind) authority.Evidence {
	evidence := authority.Evidence{}
	certAnnotation, keyAnnotation := authorities.ClusterCertGenerationAnnotation, authorities.ClusterKeyGenerationAnnotation
	if kind == authorities.Clients {
		certAnnotation, keyAnnotation = authorities.ClientsCertGenerationAnnotation, ""
	}
	note := func(name string, annotations map[string]string) {
		evidence.Dependants = append(evidence.Dependants, name)
		evidence.KeyGeneration = max(evidence.KeyGeneration, generation(annotations[keyAnnotation]))
		// A CA has a certificate generation at least as high as that of its key, also before it has signed a leaf.
		evidence.CertGeneration = max(evidence.CertGeneration, generation(annotations[certAnnotation]), evidence.KeyGeneration)
	}
	for name := range o.pods {
		note(name, o.pods[name].Annotations)
	}
	for name := range o.podSets {
		set := o.podSets[name]
		described := o.describedPods(&set)
		for i := range described {
			pod := &described[i].pod
			note(pod.Name, pod.Annotations)
			evidence.Described = append(evidence.Described, pinned(pod, kind)...)
		}
	}
	for name, secret := range o.secrets {
		if _, leaf := secret.Data[agent.PublicationKey]; leaf && kind == authorities.Cluster {
			note(name, secret.Annotations)
		}
	}
	for _, t := range o.unreadNodes() {
		evidence.Unread = append(evidence.Unread, t.name)
		if kind == authorities.Cluster {
			note(t.name, nil)
		}
	}
	slices.Sort(evidence.Dependants)
	return evidence
}

// pinned are the anchors of an authority that the pin of a pod names.
func pinned(pod *corev1.Pod, kind authorities.Kind) []pki.Fingerprint {
	var anchors []pki.Fingerprint
	for role, named := range pinOf(pod).Trust {
		if domainOfRole(role) == domainOf(kind) {
			anchors = append(anchors, fingerprints(named)...)
		}
	}
	return anchors
}

// storedLeaves are the leaves of the nodes and of the operator that Secrets hold.
func storedLeaves(c *desired) []*x509.Certificate {
	keys := map[string]string{c.kafka.Name + operatorSecretSuffix: operatorCertKey}
	for _, node := range c.allNodes() {
		keys[node.Pod] = node.Pod + ".crt"
	}
	var leaves []*x509.Certificate
	for _, secret := range slices.Sorted(maps.Keys(keys)) {
		if chain := c.presents(secret, keys[secret]); len(chain) > 0 {
			leaves = append(leaves, chain[0])
		}
	}
	return leaves
}

// generation reads the generation that a dependant carries, zero if it is no number or
// larger than counting can have reached.
func generation(text string) authority.Generation {
	n, err := strconv.Atoi(text)
	if err != nil || authority.Generation(n) >= authority.MaxGeneration/2 {
		return 0
	}
	return authority.Generation(n)
}

// authorityInput is what an authority is decided from.
func (r *Reconciler) authorityInput(c *decided, kind authorities.Kind) authority.Input {
	names := kind.Names(c.kafka.Name)
	return authority.Input{
		Names:        names,
		Spec:         model.CASpec(c.caSpec(kind)),
		KeySecret:    c.stored(names.KeySecret),
		CertSecret:   c.stored(names.CertSecret),
		TrustedCerts: c.stored(names.TrustedCertsSecret),
		Bundle:       c.bundleOf(kind),
		Making:       &authority.Making{Key: c.domain(kind).made},
		SANs:         c.leafNames(),
		Stores:       r.options.Stores,
		Window:       c.window,
		Evidence:     c.dependence(kind),
		Paused:       c.handsOff(),
		Now:          c.now,
	}
}

// decideCA decides one authority, of which problems may be known, and makes the key that the decision demands. What is decided
// again from the same Secrets is about the same key.
func (d *domain) decideCA(input authority.Input, known []authority.Problem) error {
	decision, problems, err := domains.DecideCA(input, known...)
	if err == nil && decision.Demand != nil {
		if d.made, err = pki.GenerateKey(*decision.Demand.Key); err != nil {
			return fmt.Errorf("making the key of %s: %w", input.Names.Authority, err)
		}
		input.Making = &authority.Making{Key: d.made}
		decision, problems, err = domains.DecideCA(input)
	}
	d.input, d.Decision, d.Problems = input, decision, problems
	return err
}

// freeze leaves a CA unchanged while Secrets of others are in place of its own: what it would write
// could be half written only.
func (c *decided) freeze(kind authorities.Kind, input authority.Input, names []string) error {
	input.Spec = input.Spec.Usable()
	decision, err := authority.Freeze(input)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	d := c.domain(kind)
	d.input, d.Decision, d.Problems = input, decision, nil
	for _, name := range names {
		d.Problems = append(d.Problems, authority.Problem{
			Object: "Secret " + name, Wrong: "it does not belong to this cluster, so this authority is neither renewed nor replaced",
			Remedy: "see condition " + string(condition.NotReady),
		})
	}
	return nil
}

// leafNames are those that the leaves of the nodes bear, all together.
func (c *desired) leafNames() pki.SANs {
	names := make([]string, 0, len(c.cluster.Nodes))
	for _, node := range c.cluster.Nodes {
		names = append(names, c.cluster.SANs(node)...)
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		return pki.SANs{} // the issuance of the node's certificate reports the error
	}
	return sans
}

// applyAuthority writes the Secrets of an authority as far as trust allows, in
// the order after which a crash in between is recognised, the anchors that pods
// mount last. Of one that cannot be used nothing is written.
func (r *Reconciler) applyAuthority(ctx context.Context, c *applied, kind authorities.Kind) error {
	d := c.domain(kind)
	secrets, transitions, err := d.Secrets()
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if err := r.writeSecret(ctx, c, r.caIntent(c.desired, kind, secret)); err != nil {
			return err
		}
	}
	for _, transition := range transitions {
		r.events.authorityChanged(&c.kafka, kind, transition)
	}
	if len(secrets) > 0 {
		r.trustChanged(&c.kafka, c.memory, kind, d)
	}
	return nil
}

func (r *Reconciler) caIntent(c *desired, kind authorities.Kind, secret domains.Secret) kube.SecretIntent {
	intent := kube.SecretIntent{
		Namespace: c.kafka.Namespace, Name: secret.Name,
		Labels:            c.cluster.ComponentLabels(model.AuthorityComponent()),
		Annotations:       secret.Annotations,
		RemoveAnnotations: secret.RemoveAnnotations,
		Data:              secret.Data,
		Owners:            ownerReferences(&c.kafka),
	}
	if !c.ownsCASecrets(kind) && secret.Name != kind.TrustedCertsSecret(c.kafka.Name) {
		intent.Owners, intent.Unowned = nil, owners(&c.kafka)
	}
	if secret.Name == authorities.Cluster.CertSecret(c.kafka.Name) {
		addTemplate(&intent, c.cluster.ClusterCACert, c.secrets[secret.Name].Annotations)
	}
	return intent
}

// writeSecret writes a Secret from the state that was observed, and keeps the
// observation up to date for what follows in the same reconcile.
func (r *Reconciler) writeSecret(ctx context.Context, c *applied, intent kube.SecretIntent) error {
	var observed *corev1.Secret
	if secret, exists := c.secrets[intent.Name]; exists {
		observed = &secret
	}
	written, err := kube.WriteSecret(ctx, r.options.Client, fieldOwner, observed, intent)
	if err != nil {
		return fmt.Errorf("Kafka %s/%s: %w", c.kafka.Namespace, c.kafka.Name, err)
	}
	if observed == nil || observed.ResourceVersion != written.ResourceVersion {
		c.hasWritten = true
	}
	c.secrets[intent.Name] = written
	if decision, issued := c.issued[intent.Name]; issued {
		r.events.leafIssued(&c.kafka, intent.Name, decision)
		delete(c.issued, intent.Name)
	}
	return nil
}
