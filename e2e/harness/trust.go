package harness

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Authority is one of the two of a Kafka cluster, by the part that the names of
// its Secrets share.
type Authority string

// The authorities.
const (
	ClusterCA = Authority(authorities.Cluster)
	ClientsCA = Authority(authorities.Clients)
)

// Names of the authority's Secrets in a cluster.
func (a Authority) keySecret(cluster string) string  { return cluster + "-" + string(a) }
func (a Authority) certSecret(cluster string) string { return a.keySecret(cluster) + "-cert" }
func (a Authority) trustedSecret(cluster string) string {
	return a.keySecret(cluster) + "-trusted-certs"
}

// condition of the Kafka resource that tells of its trust.
func (a Authority) condition() condition.Type {
	if a == ClientsCA {
		return "ClientsCATrust"
	}
	return "ClusterCATrust"
}

// Annotations by which people rotate authorities.
const (
	forceReplace = "strimzi.io/force-replace"
	forceRenew   = "strimzi.io/force-renew"
	abortReplace = "keyturn.dev/abort-replace"
	distrust     = "keyturn.dev/distrust"
)

func (k Kafka) annotateSecret(ctx context.Context, name, annotation, value string) error {
	return k.Kube.Annotate(ctx, &corev1.Secret{ObjectMeta: k.Meta(name)}, map[string]string{annotation: value})
}

// Replace asks for a new key of an authority.
func (k Kafka) Replace(ctx context.Context, a Authority) error {
	return k.annotateSecret(ctx, a.keySecret(k.Name), forceReplace, yes)
}

// Renew asks for a new certificate of an authority's key.
func (k Kafka) Renew(ctx context.Context, a Authority) error {
	return k.annotateSecret(ctx, a.certSecret(k.Name), forceRenew, yes)
}

// Abort asks to give up a replacement.
func (k Kafka) Abort(ctx context.Context, a Authority) error {
	return k.annotateSecret(ctx, a.keySecret(k.Name), abortReplace, yes)
}

// Distrust says that the keys of all anchors but the newest are in wrong hands.
func (k Kafka) Distrust(ctx context.Context, a Authority) error {
	return k.annotateSecret(ctx, a.keySecret(k.Name), distrust, "now")
}

// ReplaceCompromised is Replace and Distrust in one write.
func (k Kafka) ReplaceCompromised(ctx context.Context, a Authority) error {
	return k.Kube.Annotate(ctx, &corev1.Secret{ObjectMeta: k.Meta(a.keySecret(k.Name))}, map[string]string{
		forceReplace: yes, distrust: "now",
	})
}

// LoseKey deletes the Secret with an authority's key.
func (k Kafka) LoseKey(ctx context.Context, a Authority) error {
	name := a.keySecret(k.Name)
	if err := k.Kube.Delete(ctx, &corev1.Secret{ObjectMeta: k.Meta(name)}); err != nil {
		return fmt.Errorf("deleting Secret %s: %w", name, err)
	}
	return nil
}

// Signer is what signs for an authority now. It is as secret as the CA's key.
func (k Kafka) Signer(ctx context.Context, a Authority) (pki.Authority, error) {
	key, certificate := &corev1.Secret{}, &corev1.Secret{}
	for name, secret := range map[string]*corev1.Secret{a.keySecret(k.Name): key, a.certSecret(k.Name): certificate} {
		if err := k.Kube.Get(ctx, k.Key(name), secret); err != nil {
			return pki.Authority{}, fmt.Errorf("reading Secret %s: %w", name, err)
		}
	}
	signer, err := authority.Signer(certificate.Data["ca.crt"], key.Data, time.Now())
	if err != nil {
		return pki.Authority{}, fmt.Errorf("reading %s of Kafka %s: %w", a, k.Name, err)
	}
	return signer, nil
}

// Phase is where an authority stands, and in which words the Kafka resource says so.
func (a Authority) Phase(resource *kafkav1.Kafka) (phase rotation.Phase, message string) {
	for _, c := range resource.Status.Conditions {
		if c.Type == a.condition() {
			return rotation.Phase(c.Reason), c.Message
		}
	}
	return "", ""
}

// Anchor is a CA certificate of the trusted-certs Secret.
type Anchor struct {
	Certificate *x509.Certificate
	State       trust.State
}

// Name tells an anchor from others for people: a renewed certificate has the
// common name of the one before.
func (a Anchor) Name() string {
	const enough = 4
	name := a.Certificate.Subject.CommonName
	return name[strings.LastIndex(name, " ")+1:] + "·" + pki.FingerprintOf(a.Certificate).String()[:enough]
}

// Trust is what the Secrets of an authority say.
type Trust struct {
	// Anchors that pods mount, the oldest first.
	Anchors []Anchor
	// Application is what applications read: ca.crt in its order.
	Application []*x509.Certificate
}

// Anchor finds an anchor by its certificate; its state is Absent when it is not
// there.
func (t Trust) Anchor(certificate *x509.Certificate) Anchor {
	for _, anchor := range t.Anchors {
		if anchor.Certificate.Equal(certificate) {
			return anchor
		}
	}
	return Anchor{Certificate: certificate}
}

// Leads says whether a certificate is the first entry of ca.crt.
func (t Trust) Leads(certificate *x509.Certificate) bool {
	return len(t.Application) > 0 && t.Application[0].Equal(certificate)
}

// Changes says in a few words what differs from an earlier look.
func (t Trust) Changes(before Trust) []string {
	var changes []string
	for _, anchor := range t.Anchors {
		if before.Anchor(anchor.Certificate).State != anchor.State {
			changes = append(changes, anchor.Name()+" "+string(anchor.State))
		}
	}
	for _, anchor := range before.Anchors {
		if t.Anchor(anchor.Certificate).State == trust.Absent {
			changes = append(changes, anchor.Name()+" is gone")
		}
	}
	if len(t.Application) > 0 && !before.Leads(t.Application[0]) {
		changes = append(changes, Anchor{Certificate: t.Application[0]}.Name()+" leads ca.crt")
	}
	return changes
}

// FollowTrust looks at the Secrets of an authority whenever one of them changes,
// until see has seen enough.
func (k Kafka) FollowTrust(ctx context.Context, a Authority, see func(Trust) (bool, error)) error {
	return k.Kube.Follow(ctx, &corev1.SecretList{}, func(secrets Objects) (bool, error) {
		trusted, haveTrusted := secrets[a.trustedSecret(k.Name)].(*corev1.Secret)
		published, havePublished := secrets[a.certSecret(k.Name)].(*corev1.Secret)
		if !haveTrusted || !havePublished {
			return false, nil // one of them is lost for a while
		}
		seen, err := readTrust(trusted.Data, published.Data["ca.crt"])
		if err != nil {
			return false, fmt.Errorf("reading the trust in %s of Kafka %s: %w", a, k.Name, err)
		}
		return see(seen)
	}, client.InNamespace(k.Namespace))
}

// Trust looks once.
func (k Kafka) Trust(ctx context.Context, a Authority) (Trust, error) {
	var last Trust
	err := k.FollowTrust(ctx, a, func(seen Trust) (bool, error) {
		last = seen
		return true, nil
	})
	return last, err
}

func readTrust(trusted map[string][]byte, bundle []byte) (Trust, error) {
	var seen Trust
	for key, text := range trusted {
		name, found := strings.CutSuffix(key, ".crt")
		if !found {
			continue
		}
		certificate, err := pki.ParseCertificate(text)
		if err != nil {
			return seen, fmt.Errorf("reading %s: %w", key, err)
		}
		seen.Anchors = append(seen.Anchors, Anchor{Certificate: certificate, State: trust.State(trusted[name+".state"])})
	}
	slices.SortFunc(seen.Anchors, func(x, y Anchor) int {
		if order := x.Certificate.NotBefore.Compare(y.Certificate.NotBefore); order != 0 {
			return order
		}
		return bytes.Compare(x.Certificate.Raw, y.Certificate.Raw)
	})
	application, err := pki.ParseBundle(bundle)
	if err != nil {
		return seen, fmt.Errorf("reading ca.crt: %w", err)
	}
	seen.Application = application
	return seen, nil
}
