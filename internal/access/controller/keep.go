package controller

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
)

// keep follows what the Secrets of the KafkaAccess were written from, while its spec cannot be followed: applications
// use them through a rotation. A Secret that was written from what is no longer allowed is deleted. holds tells
// whether there is a Secret.
func (p *pass) keep(ctx context.Context) (holds bool, err error) {
	names, err := p.owned(ctx)
	if err != nil {
		return false, err
	}
	var failed []error
	for _, name := range names {
		held, err := p.keepSecret(ctx, p.own(name))
		failed = append(failed, err)
		holds = holds || held
	}
	return holds, errors.Join(failed...)
}

func (p *pass) keepSecret(ctx context.Context, name types.NamespacedName) (held bool, err error) {
	secret, wasSeen := &corev1.Secret{}, p.unlabelled[name]
	found, err := p.find(ctx, secret, ofSecret, name)
	if err != nil {
		return false, err
	}
	if !found || !binding.IsOwn(secret, p.access) {
		if !wasSeen {
			delete(p.unlabelled, name) // nothing waits for it
		}
		return false, nil
	}
	if err := kube.OwnAsApplied(ctx, p.options.Client, binding.Owner, secret); err != nil {
		return true, p.notWritten("patch", secret.Name, err)
	}
	applied, err := corev1ac.ExtractSecret(secret, binding.Owner)
	if err != nil {
		return true, &requestError{verb: "get", kind: ofSecret, name: name, err: err}
	}
	source, known := binding.SourceOf(applied.Annotations)
	if !known { // the annotation was edited, or an earlier version of the operator has written the Secret
		source = p.access.Asked()
	}
	isAllowed, err := p.isAllowed(ctx, source)
	if err != nil {
		return true, err
	}
	if !isAllowed {
		return false, p.delete(ctx, secret)
	}
	if !known {
		return true, nil
	}
	return true, p.refresh(ctx, secret, applied, source)
}

// isAllowed reports whether nothing that a source refers to has stopped to allow it. What does not exist has not.
func (p *pass) isAllowed(ctx context.Context, source binding.Source) (bool, error) {
	kafka, err := p.isConsented(ctx, &kafkav1.Kafka{}, ofKafka, types.NamespacedName(source.Kafka))
	if err != nil || !kafka || source.User == nil {
		return kafka, err
	}
	return p.isConsented(ctx, &kafkav1.KafkaUser{}, ofUser, types.NamespacedName(*source.User))
}

func (p *pass) isConsented(ctx context.Context, into client.Object, kind kind, name types.NamespacedName) (bool, error) {
	if name.Namespace == p.access.Namespace || p.options.References == Unrestricted {
		return true, nil
	}
	if len(p.options.Namespaces) > 0 && !slices.Contains(p.options.Namespaces, name.Namespace) {
		return true, nil // there is no right to ask
	}
	found, err := p.find(ctx, into, kind, name)
	return err == nil && (!found || binding.Consents(into, p.access.Namespace)), err
}

// refresh writes what has changed in the source. applied is what the operator has written of the Secret.
func (p *pass) refresh(ctx context.Context, secret *corev1.Secret, applied *corev1ac.SecretApplyConfiguration, source binding.Source) error {
	connection, unknown, err := p.partialConnection(ctx, source)
	if err != nil {
		return err
	}
	data := connection.Follow(applied.Data, secret.Data, unknown)
	if equality.Semantic.DeepEqual(applied.Data, data) {
		return nil
	}
	applied.Data = data
	return p.apply(ctx, "patch", binding.Precisely(secret, applied))
}

// partialConnection reads what can be read of a source, and tells which parts are unknown.
func (p *pass) partialConnection(ctx context.Context, source binding.Source) (connection binding.Connection, unknown []binding.Part, err error) {
	kafka, noListener := p.kafka(ctx, source)
	if noListener == nil {
		connection.Listener, noListener = binding.ChooseListener(kafka, source.Listener, binding.Anonymous)
	}
	noAddress, noTrust := noListener, noListener
	if noListener == nil {
		connection.Bootstrap, noAddress = binding.Bootstrap(kafka, connection.Listener.Name)
		trust := binding.TrustOf(kafka, &connection.Listener, source, p.access.Namespace)
		connection.Truststore, noTrust = p.truststore(ctx, trust)
	}
	user, noUser := p.user(ctx, source)
	connection.User = binding.UserOf(user)
	if noListener == nil && noUser == nil {
		_, noUser = binding.ChooseListener(kafka, connection.Listener.Name, connection.User)
	}
	if noUser == nil {
		noUser = p.addCredentials(ctx, user, &connection)
	}
	for part, failed := range map[binding.Part]error{
		binding.Address: noAddress, binding.Truststore: noTrust, binding.Credentials: noUser,
	} {
		if isRetried(failed) {
			return connection, nil, failed
		}
		if failed != nil {
			unknown = append(unknown, part)
		}
	}
	return connection, unknown, nil
}
