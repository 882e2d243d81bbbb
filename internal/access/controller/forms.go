package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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
	public, proposed := &accessv1alpha1.KafkaAccessList{}, &kafkav1beta2.KafkaAccessList{}
	for _, list := range []client.ObjectList{public, proposed} {
		if err := r.options.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, &requestError{verb: "list", kind: ofAccess, name: types.NamespacedName{Namespace: namespace}, err: err}
		}
	}
	accesses := make([]*binding.Access, 0, len(public.Items)+len(proposed.Items))
	for i := range public.Items {
		accesses = append(accesses, binding.OfPublic(&public.Items[i]))
	}
	for i := range proposed.Items {
		accesses = append(accesses, binding.OfProposed(&proposed.Items[i]))
	}
	return accesses, nil
}

// regarding is the KafkaAccess that an event is about.
func regarding(access *binding.Access) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: access.Form.GroupVersion.String(), Kind: accessv1alpha1.KindKafkaAccess,
		Namespace: access.Namespace, Name: access.Name, UID: access.UID, ResourceVersion: access.ResourceVersion,
	}
}
