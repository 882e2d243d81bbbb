package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/user/model"
)

// UserIssuer issues certificates into Secrets that it is given.
type UserIssuer interface {
	issuer.Renewer
	// Release takes what was issued out of the Secret, and cancels the request.
	Release(ctx context.Context, name string) error
}

// Issuance is an issuer that holds the key of the clients CA, and what it issues a certificate for.
type Issuance struct {
	Namespace string
	Issuer    kafkamodel.IssuerRef
	// Owner is the KafkaUser.
	Owner  metav1.OwnerReference
	Labels map[string]string
	Stores authority.StoreGeneration
}

// Issuers makes issuers. As a source it has a user looked at when what its issuer was asked for changes; see CertificateChanged.
type Issuers interface {
	source.Source

	IssuerOf(Issuance) UserIssuer
	// Refer notes that a user asks an issuer, and Forget that it does no more.
	Refer(user types.NamespacedName)
	Forget(user types.NamespacedName)
}

// CertificateChanged requests a reconcile of the users that own a changed Certificate.
func (r *Reconciler) CertificateChanged(_ context.Context, certificate client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, owner := range certificate.GetOwnerReferences() {
		if owner.Kind == kafkav1.KindKafkaUser {
			user := types.NamespacedName{Namespace: certificate.GetNamespace(), Name: owner.Name}
			r.memory.tell(user)
			requests = append(requests, reconcile.Request{NamespacedName: user})
		}
	}
	return requests
}

// observeSigner reads what is known of who signs for a user: the clients CA with its key, or an issuer that holds it, which is
// asked for the user's certificate.
func (r *Reconciler) observeSigner(ctx context.Context, o *model.Observed) (err error) {
	o.Outside.Gate = r.options.Gates.CertManagerCaType
	o.Outside.Fills = o.Secret != nil && certmanager.Fills(o.Secret)
	request, asks := o.IssuerRequest()
	if !asks {
		o.CA, o.CAProblem, err = r.clientsCA(ctx)
		return err
	}
	if err := r.readTrust(ctx, o); err != nil {
		return err
	}
	if o.Outside.Gate == featuregate.Off {
		o.Outside.Answer = certmanager.Given(request, o.Secret)
		return nil
	}
	if err := r.give(ctx, o); err != nil {
		return err
	}
	r.options.Issuers.Refer(client.ObjectKeyFromObject(o.User))
	answer, err := r.issuerOf(*o).Issue(ctx, request)
	if ctx.Err() != nil {
		return fmt.Errorf("requesting the certificate of KafkaUser %s: %w", o.User.Name, ctx.Err())
	}
	if err != nil {
		answer = issuer.Pending{Since: o.Now, Why: err.Error() + "."} // it may pass by itself
	}
	o.Outside.Answer = answer
	return nil
}

// readTrust reads the CAs that nodes trust and shall trust. ca.crt of the user is cert-manager's where that writes one.
func (r *Reconciler) readTrust(ctx context.Context, o *model.Observed) error {
	cluster := r.options.Cluster.Name
	published, isPublished, err := r.secret(ctx, authorities.Clients.CertSecret(cluster))
	if err != nil {
		return err
	}
	if isPublished {
		o.CA.Bundle = published.Data[authority.CertKey]
		o.Outside.Named = authority.BundleIn(published.Data)
	} else {
		o.CAProblem = fmt.Sprintf("Secret %s does not exist. No certificate is adopted until the cluster operator has copied the CA certificates of the issuer.",
			authorities.Clients.CertSecret(cluster))
	}
	trusted, exists, err := r.secret(ctx, authorities.Clients.TrustedCertsSecret(cluster))
	if err != nil {
		return err
	}
	if exists {
		o.Outside.Anchors = authority.StoredAnchors(authority.Stored{Exists: true, Data: trusted.Data})
	}
	if o.Secret == nil {
		return nil
	}
	managers, err := kube.EntryManagers(o.Secret)
	if err != nil {
		return fmt.Errorf("telling who writes %s of Secret %s: %w", model.CAEntry, o.Secret.Name, err)
	}
	if slices.ContainsFunc(managers[model.CAEntry], func(manager string) bool { return manager != model.Owner }) && o.Outside.Fills {
		o.CA.Bundle = nil
	}
	return nil
}

// give creates the Secret that the issuer fills.
func (r *Reconciler) give(ctx context.Context, o *model.Observed) error {
	data, isLacking, err := o.Given(r.options.Stores)
	if err != nil || !isLacking {
		return err
	}
	if _, err := r.applySecret(ctx, *o, data); err != nil {
		return err
	}
	o.Secret, _, err = r.secret(ctx, o.SecretName)
	return err
}

func (r *Reconciler) issuerOf(o model.Observed) UserIssuer {
	var ref kafkamodel.IssuerRef
	if o.Kafka != nil {
		ref, _, _ = kafkamodel.CertManagerIssuer(o.Kafka.Spec.ClientsCa)
	}
	return r.options.Issuers.IssuerOf(Issuance{
		Namespace: o.User.Namespace, Issuer: ref, Stores: r.options.Stores, Labels: model.SecretLabels(o.User),
		Owner: metav1.OwnerReference{
			APIVersion: kafkav1.GroupVersion.String(), Kind: kafkav1.KindKafkaUser, Name: o.User.Name, UID: o.User.UID,
			Controller: new(false), BlockOwnerDeletion: new(false),
		},
	})
}

// leaveIssuer takes what the issuer has left out of a Secret whose user has other credentials, or none any more. It returns the
// Secret as it is then, nil when it is gone or the issuer goes on filling it.
func (r *Reconciler) leaveIssuer(ctx context.Context, o model.Observed, d *model.Decision) (*corev1.Secret, error) {
	if !o.LeavesIssuer() {
		return o.Secret, nil
	}
	r.options.Issuers.Forget(client.ObjectKeyFromObject(o.User))
	if err := r.issuerOf(o).Release(ctx, o.SecretName); err != nil {
		d.NotReleased(err, o.Now)
		return nil, nil //nolint:nilnil // a person is told
	}
	secret, _, err := r.secret(ctx, o.SecretName)
	return secret, err
}

// renewals has users' certificates issued again after their issuer got another CA: that of one user first, and those of the
// others when the issuer is known to sign with it.
type renewals struct {
	mu sync.Mutex
	// user is the first one, whose turn ends at a time.
	user  types.NamespacedName
	until time.Time
	// named are the CAs of the issuer, and signs whether it was seen to sign with one of them since they changed.
	named string
	signs bool
	// lasts is the latest end of a certificate, and of what is presented with it, that was seen since.
	lasts time.Time
}

// turn reports whether the certificate of a user, signed as it is, is to be issued again.
func (r *renewals) turn(user types.NamespacedName, named []*x509.Certificate, signer model.Signer, end, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if names := string(pki.EncodeBundle(named...)); names != r.named {
		r.named, r.signs, r.until, r.lasts = names, false, time.Time{}, time.Time{}
	}
	switch signer {
	case model.NamedCA:
		r.signs = true
		if end.After(r.lasts) {
			r.lasts = end
		}
		return false
	case model.OutgoingCA:
		if r.signs {
			return true
		}
	case model.EndingCA:
		if end.Before(r.lasts) {
			return true
		}
	case model.OtherCA:
		return false
	}
	if r.user != user && now.Before(r.until) {
		return false
	}
	r.user, r.until = user, now.Add(issuer.RenewalPause)
	return true
}

// outgoingPause is how soon a user is looked at again whose certificate waits for that of the first one.
const outgoingPause = time.Minute

// renewOutgoing has a certificate issued again that is of a CA on its way out, or ends with an intermediate.
func (r *Reconciler) renewOutgoing(ctx context.Context, o model.Observed, d *model.Decision) error {
	issued, is := o.Outside.Answer.(issuer.Issued)
	if !is || o.Outside.Gate == featuregate.Off {
		return nil
	}
	signer := o.SignerOf(issued)
	if !r.renewals.turn(client.ObjectKeyFromObject(o.User), o.Outside.Named, signer, pki.EarliestEnd(issued.Chain), o.Now) {
		if signer == model.OutgoingCA || signer == model.EndingCA {
			d.Due(o.Now, o.Now.Add(outgoingPause))
		}
		return nil
	}
	renewed, err := r.issuerOf(o).Renew(ctx, o.SecretName, issuer.Renewal{Present: issued.Chain[0], Target: string(pki.EncodeBundle(o.Outside.Named...))}, o.Now)
	if err != nil {
		return fmt.Errorf("having the certificate of KafkaUser %s issued again: %w", o.User.Name, err)
	}
	d.Due(o.Now, renewed.Next)
	if renewed.InVain {
		d.NotRenewed(o.SecretName, renewed.Next)
	}
	return nil
}

// settleIssuer does at the issuer what follows from the credentials that are stored.
func (r *Reconciler) settleIssuer(ctx context.Context, o model.Observed, d *model.Decision, done *outcome) error {
	if err := r.renewOutgoing(ctx, o, d); err != nil {
		return err
	}
	done.wake = earliest(done.wake, d.Wake)
	if !o.LeavesIssuer() {
		return nil
	}
	left, err := r.leaveIssuer(ctx, o, d)
	if left != nil {
		done.secretVersion = left.ResourceVersion
	}
	done.wake = earliest(done.wake, d.Wake)
	return err
}
