package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// newObject is an empty KafkaAccess of a form.
func newObject(form binding.Form) client.Object {
	if form.GroupVersion == kafkav1beta2.GroupVersion {
		return &kafkav1beta2.KafkaAccess{}
	}
	return &accessv1alpha1.KafkaAccess{}
}

// accessOf reads an object that newObject has made.
func accessOf(object client.Object) *binding.Access {
	switch object := object.(type) {
	case *kafkav1beta2.KafkaAccess:
		return binding.OfProposed(object)
	case *accessv1alpha1.KafkaAccess:
		return binding.OfPublic(object)
	default:
		return &binding.Access{}
	}
}

// listAccesses are the KafkaAccesses of both forms in a namespace, as the cache knows them.
func (r *Reconciler) listAccesses(ctx context.Context, namespace string) ([]*binding.Access, error) {
	var accesses []*binding.Access
	for _, form := range []binding.Form{binding.Public(), binding.Proposed()} {
		ofForm, err := r.listForm(ctx, form, namespace)
		if err != nil {
			return nil, err
		}
		accesses = append(accesses, ofForm...)
	}
	return accesses, nil
}

// listForm are the KafkaAccesses of a form in a namespace, or in all, as the cache knows them.
func (r *Reconciler) listForm(ctx context.Context, form binding.Form, namespace string) ([]*binding.Access, error) {
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	var list client.ObjectList = &accessv1alpha1.KafkaAccessList{}
	if form.GroupVersion == kafkav1beta2.GroupVersion {
		list = &kafkav1beta2.KafkaAccessList{}
	}
	if err := r.options.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		for _, denial := range r.options.Watches.Denials() {
			if denial.Covers(ofAccess.watched(form), namespace) {
				return nil, denial
			}
		}
		return nil, &requestError{verb: "list", kind: ofAccess, name: types.NamespacedName{Namespace: namespace}, err: err}
	}
	var accesses []*binding.Access
	err := meta.EachListItem(list, func(object runtime.Object) error {
		if object, is := object.(client.Object); is {
			accesses = append(accesses, accessOf(object))
		}
		return nil
	})
	return accesses, err
}

// regarding is the KafkaAccess that an event or a status is about.
func regarding(access *binding.Access) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: access.Form.GroupVersion.String(), Kind: accessv1alpha1.KindKafkaAccess},
		ObjectMeta: access.ObjectMeta,
	}
}
