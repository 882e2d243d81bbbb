package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
)

// write makes the Secret what the intent says, unless it belongs to others.
func (p *pass) write(ctx context.Context, intent *corev1ac.SecretApplyConfiguration) error {
	name := types.NamespacedName{Namespace: p.access.Namespace, Name: *intent.Name}
	secret, verb := &corev1.Secret{}, "create"
	found, err := p.find(ctx, secret, ofSecret, name.Name)
	if err != nil {
		return err
	}
	if found {
		verb = "patch"
		if err := binding.CheckOwner(secret, p.access); err != nil {
			return err
		}
		if written, err := kube.IsApplied(secret, intent, binding.Owner); err != nil || written {
			return err
		}
		intent = binding.Precisely(secret, intent)
	}
	_, err = p.applier.Apply(ctx, intent, nil)
	// The intent names the version it replaces: what the Applier remembers of it is of no use.
	p.applier.Forget("v1", "Secret", name.Namespace, name.Name)
	switch {
	case apierrors.IsInvalid(err):
		return binding.Rejected(name.Name, err)
	case err != nil:
		return &requestError{verb: verb, kind: ofSecret, name: name, err: err}
	}
	p.options.Metrics.wrote()
	delete(p.unlabelled, name.Name)
	return nil
}

// deletePrevious deletes the Secret of an earlier name. The status names it until it is gone, so that a crash
// in between leaves nothing behind.
func (p *pass) deletePrevious(ctx context.Context) error {
	bound := p.access.Status.Binding
	if bound == nil || bound.Name == "" || bound.Name == binding.SecretName(p.access) {
		return nil
	}
	name := types.NamespacedName{Namespace: p.access.Namespace, Name: bound.Name}
	secret := &corev1.Secret{}
	if err := p.options.Live.Get(ctx, name, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return &requestError{verb: "get", kind: ofSecret, name: name, err: err}
	}
	if !binding.IsOwn(secret, p.access) {
		return nil
	}
	if err := kube.DeleteUnchanged(ctx, p.options.Client, secret); err != nil {
		return &requestError{verb: "delete", kind: ofSecret, name: name, err: err}
	}
	return nil
}
