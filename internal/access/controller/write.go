package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
)

// write makes the Secret what the connection says, unless it belongs to others.
func (p *pass) write(ctx context.Context, source binding.Source, connection *binding.Connection) error {
	secret := &corev1.Secret{}
	found, err := p.find(ctx, secret, ofSecret, p.own(p.access.SecretName()))
	if err != nil {
		return err
	}
	data, err := connection.Data(p.access.Layout(), secret.Data)
	if err != nil {
		return err
	}
	text, err := source.Text()
	if err != nil {
		return err
	}
	intent := binding.Secret(p.access, text, data)
	if !found {
		if err := p.checkOlder(ctx); err != nil {
			return err
		}
		return p.create(ctx, intent)
	}
	if err := binding.CheckOwner(secret, p.access); err != nil {
		return err
	}
	if written, err := kube.IsApplied(secret, intent, binding.Owner); err != nil || written {
		return err
	}
	if err := kube.OwnAsApplied(ctx, p.options.Client, binding.Owner, secret); err != nil {
		return p.notWritten("patch", secret.Name, err)
	}
	return p.apply(ctx, "patch", binding.Precisely(secret, intent))
}

// create writes a Secret that did not exist, and fails if there is one since.
func (p *pass) create(ctx context.Context, intent *corev1ac.SecretApplyConfiguration) error {
	secret, err := kube.CreateSecret(ctx, p.options.Client, binding.Owner, intent)
	if err != nil {
		return p.notWritten("create", *intent.Name, err)
	}
	if err := kube.OwnAsApplied(ctx, p.options.Client, binding.Owner, secret); err != nil {
		return p.notWritten("patch", *intent.Name, err)
	}
	p.wrote(client.ObjectKeyFromObject(secret), secret.ResourceVersion)
	return nil
}

// notWritten says what an error of the API server means for the Secret.
func (p *pass) notWritten(verb, secret string, err error) error {
	if apierrors.IsInvalid(err) {
		return binding.Rejected(secret, err)
	}
	return &requestError{verb: verb, kind: ofSecret, name: p.own(secret), err: err}
}

// own is the name of a Secret of the KafkaAccess.
func (p *pass) own(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.access.Namespace, Name: name}
}

// checkOlder leaves a Secret that does not exist yet to the older of two KafkaAccesses that ask for it.
func (p *pass) checkOlder(ctx context.Context) error {
	others, err := p.listAccesses(ctx, p.access.Namespace)
	if err != nil {
		return err
	}
	if older := p.access.Older(others); older != nil {
		referred := reference{ofAccess, older.Key()}
		p.read[referred] = older.ResourceVersion
		p.references.add(p.access.Key(), referred)
	}
	return binding.CheckOlder(p.access, others)
}

func (p *pass) apply(ctx context.Context, verb string, intent *corev1ac.SecretApplyConfiguration) error {
	name := p.own(*intent.Name)
	result, err := p.applier.Apply(ctx, intent, nil)
	// The intent names the version it replaces: what the Applier remembers of it is of no use.
	p.applier.Forget("v1", "Secret", name.Namespace, name.Name)
	if err != nil {
		return p.notWritten(verb, name.Name, err)
	}
	p.wrote(name, result.ResourceVersion)
	return nil
}

// wrote notes the version in which the operator has left a Secret.
func (p *pass) wrote(name types.NamespacedName, version string) {
	p.options.Metrics.wrote()
	p.read[reference{ofSecret, name}] = version
	delete(p.unlabelled, name)
}
