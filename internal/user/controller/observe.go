package controller

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// observe reads what a decision about a user depends on. Secrets are read past the cache, which holds no keys.
func (r *Reconciler) observe(ctx context.Context, user *kafkav1.KafkaUser, now time.Time) (model.Observed, error) {
	o := model.Observed{
		User: user, SecretName: r.secretName(user.Name), IsTurn: r.turns.has(client.ObjectKeyFromObject(user)), Now: now,
	}
	var err error
	if o.Secret, o.Former, err = r.secretsOf(ctx, user); err != nil {
		return model.Observed{}, err
	}
	if reference := model.PasswordReference(user); reference != nil {
		if o.PasswordSecret, _, err = r.secret(ctx, reference.Name); err != nil {
			return model.Observed{}, err
		}
	}
	var exists bool
	if o.Kafka, exists, err = r.kafka(ctx); err != nil || !exists {
		return o, err
	}
	if err = r.observeSigner(ctx, &o); err != nil || !o.DependsOnAnchors() {
		return o, err
	}
	trusted, isPublished, err := r.secret(ctx, authorities.Clients.TrustedCertsSecret(r.options.Cluster.Name))
	if err == nil && isPublished {
		o.CA.Anchors = authority.StoredAnchors(authority.Stored{Exists: true, Data: trusted.Data})
		o.CA.Signer, o.CAProblem = o.SignerInForce()
	}
	return o, err
}

func (r *Reconciler) secretName(user string) string { return r.options.SecretPrefix + user }

// secretsOf reads the Secret of a user, and the one that it has under another prefix until the status names the new one.
func (r *Reconciler) secretsOf(ctx context.Context, user *kafkav1.KafkaUser) (current, former *corev1.Secret, err error) {
	name, before := r.secretName(user.Name), user.Status.Secret
	current, _, err = r.secret(ctx, name)
	if err != nil || before == "" || before == name {
		return current, nil, err
	}
	former, exists, err := r.secret(ctx, before)
	if err != nil || !exists || !model.IsOwned(former, user) {
		return current, nil, err
	}
	return current, former, nil
}

// kafka is the cluster of the users, and whether it exists.
func (r *Reconciler) kafka(ctx context.Context) (*kafkav1.Kafka, bool, error) {
	return kube.Read[kafkav1.Kafka](ctx, r.options.Client, r.options.Cluster)
}

// clientsCA reads the CA that signs now, and says what is wrong when none does.
func (r *Reconciler) clientsCA(ctx context.Context) (ca model.CA, problem string, err error) {
	certName, keyName := authorities.Clients.CertSecret(r.options.Cluster.Name), authorities.Clients.KeySecret(r.options.Cluster.Name)
	certificate, isPublished, err := r.secret(ctx, certName)
	if err != nil {
		return model.CA{}, "", err
	}
	key, isHeld, err := r.secret(ctx, keyName)
	if err != nil {
		return model.CA{}, "", err
	}
	if !isPublished {
		return model.CA{}, fmt.Sprintf("Secret %s does not exist. No certificate is issued until the clients CA is created. "+
			"The cluster operator creates it with the Kafka, or restore it.", certName), nil
	}
	ca.Bundle, ca.Trusted = certificate.Data[authority.CertKey], authority.PublishedCAs(certificate.Data)
	if !isHeld {
		return ca, fmt.Sprintf("Secret %s does not exist. Certificates in use stay valid, and none is issued. Restore the Secret.", keyName), nil
	}
	ca.IsDistrusted = strings.EqualFold(key.Annotations[authority.DistrustAnnotation], authority.DistrustNow)
	ca.Signer, err = authority.Signer(ca.Bundle, key.Data, r.options.Clock.Now())
	if err != nil {
		return ca, fmt.Sprintf("The clients CA cannot sign: %s. Certificates in use stay valid, and none is issued. "+
			"Correct the Secrets %s and %s.", err, certName, keyName), nil
	}
	return ca, "", nil
}

// secret reads a Secret of the cluster's namespace, and whether it exists.
func (r *Reconciler) secret(ctx context.Context, name string) (*corev1.Secret, bool, error) {
	return kube.Read[corev1.Secret](ctx, r.options.Live, types.NamespacedName{Namespace: r.options.Cluster.Namespace, Name: name})
}

// version is what the cache shows of everything that a decision about a user depends on.
type version struct {
	uid        types.UID
	generation int64
	metadata   string
	kafka      string
	secret     string
	caCert     string
	caKey      string
	// trusted is what nodes trust for clients.
	trusted string
	// password is the Secret that the password comes from, and told changes when something happens to it.
	password string
	told     uint64
	// isKept: the finalizer is set.
	isKept bool
	// hasDeparted: another user operator says that the user is not its any more.
	hasDeparted bool
	isPaused    bool
	// unnoticed is which watches are denied.
	unnoticed string
}

// requests are the annotations by which people speak to operators.
func requests(annotations map[string]string) map[string]string {
	own := maps.Clone(annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return !authorities.OwnKey(key) })
	return own
}

func (r *Reconciler) version(ctx context.Context, user *kafkav1.KafkaUser) (version, error) {
	v := version{
		uid: user.UID, generation: user.Generation, metadata: fmt.Sprint(user.Labels, requests(user.Annotations)),
		told: r.memory.told(client.ObjectKeyFromObject(user)), isKept: r.isKept(user), hasDeparted: model.HasDeparted(user.Status), isPaused: model.IsPaused(user),
	}
	kafka, exists, err := r.kafka(ctx)
	if err != nil {
		return version{}, err
	}
	if exists {
		v.kafka = fmt.Sprint(kafka.UID, kafka.Generation)
	}
	unnoticed, err := r.unnoticed(ctx)
	if err != nil {
		return version{}, err
	}
	v.unnoticed = textOf(unnoticed)
	secrets := map[*string]string{
		&v.secret:  r.secretName(user.Name),
		&v.caCert:  authorities.Clients.CertSecret(r.options.Cluster.Name),
		&v.caKey:   authorities.Clients.KeySecret(r.options.Cluster.Name),
		&v.trusted: authorities.Clients.TrustedCertsSecret(r.options.Cluster.Name),
	}
	if reference := model.PasswordReference(user); reference != nil {
		secrets[&v.password] = reference.Name
	}
	for at, name := range secrets {
		if *at, err = r.cachedVersion(ctx, name); err != nil {
			return version{}, err
		}
	}
	return v, nil
}

// cachedVersion is the resource version of a Secret as the cache shows it, empty when it shows none.
func (r *Reconciler) cachedVersion(ctx context.Context, name string) (string, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.options.Client.Get(ctx, client.ObjectKey{Namespace: r.options.Cluster.Namespace, Name: name}, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading metadata of Secret %s: %w", name, err)
	}
	return secret.ResourceVersion, nil
}
