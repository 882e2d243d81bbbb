package controller

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kube"
)

// owned names the Secrets that the KafkaAccess may have, sorted: the one that it asks for, the one that its status names,
// and all that name it as their owner. A crash leaves one of an earlier name that neither spec nor status has.
func (p *pass) owned(ctx context.Context) ([]string, error) {
	names := []string{p.access.SecretName()}
	if bound := p.access.Status.Binding; bound != nil && bound.Name != "" {
		names = append(names, bound.Name)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := p.options.Live.List(ctx, list, client.InNamespace(p.access.Namespace), client.MatchingLabels{binding.ManagedByLabel: binding.ManagedBy})
	if err != nil {
		return nil, &requestError{verb: "list", kind: ofSecret, name: types.NamespacedName{Namespace: p.access.Namespace}, err: err}
	}
	for i := range list.Items {
		if binding.IsOwner(p.access, &list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// deletePrevious deletes the Secrets of earlier names. There are none once the status says that this generation is bound,
// so that what is copied in a rotation costs no list.
func (p *pass) deletePrevious(ctx context.Context) error {
	if binding.IsBound(p.access) {
		return nil
	}
	names, err := p.owned(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if name != p.access.SecretName() {
			failed = append(failed, p.deleteOwn(ctx, p.own(name)))
		}
	}
	return errors.Join(failed...)
}

func (p *pass) deleteOwn(ctx context.Context, name types.NamespacedName) error {
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
	return p.delete(ctx, secret)
}

func (p *pass) delete(ctx context.Context, secret *corev1.Secret) error {
	if err := kube.DeleteUnchanged(ctx, p.options.Client, secret); err != nil {
		return &requestError{verb: "delete", kind: ofSecret, name: client.ObjectKeyFromObject(secret), err: err}
	}
	return nil
}
