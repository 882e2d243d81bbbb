package controller

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// settled is a KafkaAccess with its status, and the versions of what it was last brought up to date with: an event that tells of
// the operator's own writes costs no request. The version of an object that does not exist is empty.
type settled struct {
	access   *binding.Access
	versions map[reference]string
}

// isSettled reports whether the cache shows everything as it was when the KafkaAccess was last brought up to date.
func (r *Reconciler) isSettled(ctx context.Context, name types.NamespacedName) bool {
	last, known := r.settled.Of(name)
	if !known || r.denial(name, last.versions) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	object := newObject(r.form)
	if err := r.options.Client.Get(ctx, name, object); err != nil {
		return false
	}
	now := accessOf(object)
	if now.UID != last.access.UID || now.Generation != last.access.Generation || !now.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(now.Status, last.access.Status) ||
		!maps.Equal(binding.IdleAnnotations(now.Annotations), binding.IdleAnnotations(last.access.Annotations)) {
		return false
	}
	for object, version := range last.versions {
		if cached, known := r.cachedVersion(ctx, object); !known || cached != version {
			return false
		}
	}
	return true
}

// cachedVersion is the version of an object in the cache, empty when it does not exist there, and whether the cache
// could be asked.
func (r *Reconciler) cachedVersion(ctx context.Context, object reference) (version string, known bool) {
	var into client.Object
	switch object.kind {
	case ofKafka:
		into = &kafkav1.Kafka{}
	case ofUser:
		into = &kafkav1.KafkaUser{}
	case ofSecret:
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		into = metadata
	default:
		return "", false
	}
	err := r.options.Client.Get(ctx, object.name, into)
	if err != nil {
		return "", apierrors.IsNotFound(err)
	}
	return into.GetResourceVersion(), true
}
