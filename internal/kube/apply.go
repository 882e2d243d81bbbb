package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Applier writes objects by server-side apply as one field owner.
//
// It remembers, per object, the digest of the last intent and the resource
// version that came back. An object whose observed resource version is still
// that one, and whose intent is still the same, costs no call. Intents may hold
// private keys, so nothing but the digest is kept.
type Applier struct {
	writer client.Client
	owner  client.FieldOwner

	mu      sync.Mutex
	applied map[objectKey]appliedState
}

type objectKey struct {
	apiVersion, kind, namespace, name string
}

type appliedState struct {
	intent          [sha256.Size]byte
	resourceVersion string
}

// NewApplier returns an Applier that writes through writer as the field owner.
func NewApplier(writer client.Client, owner string) *Applier {
	return &Applier{
		writer:  writer,
		owner:   client.FieldOwner(owner),
		applied: map[objectKey]appliedState{},
	}
}

// Result says what an Apply did.
type Result struct {
	// Called is false when the object was known to be as intended.
	Called bool
	// ResourceVersion is the object's version after the call, or the observed
	// one when none was made.
	ResourceVersion string
}

// Apply makes the object's owned fields what intent says. observed is the
// object as the cache knows it, nil when the cache does not have it; only its
// resource version is looked at, so metadata is enough. An intent that carries a
// resource version or UID applies only to that version or instance: losing the
// race is a Conflict error of the API server.
func (a *Applier) Apply(ctx context.Context, intent runtime.ApplyConfiguration, observed metav1.Object) (Result, error) {
	object, digest, err := prepare(intent)
	if err != nil {
		return Result{}, err
	}
	key := keyOf(object)
	if version, same := a.unchanged(key, digest, observed); same {
		return Result{ResourceVersion: version}, nil
	}
	err = a.writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), a.owner, client.ForceOwnership)
	if err != nil {
		a.Forget(key.apiVersion, key.kind, key.namespace, key.name)
		return Result{}, fmt.Errorf("applying %s %s/%s: %w", key.kind, key.namespace, key.name, asConflict(object, err))
	}
	a.remember(key, appliedState{intent: digest, resourceVersion: object.GetResourceVersion()})
	return Result{Called: true, ResourceVersion: object.GetResourceVersion()}, nil
}

// asConflict says what it means when an intent names the UID of an instance that
// has been replaced: the API server answers that the UID is immutable.
func asConflict(intent *unstructured.Unstructured, err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !apierrors.IsInvalid(status) || status.ErrStatus.Details == nil {
		return err
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == "metadata.uid" {
			kind := schema.GroupResource{Group: intent.GroupVersionKind().Group, Resource: intent.GetKind()}
			return apierrors.NewConflict(kind, intent.GetName(), err)
		}
	}
	return err
}

// ApplyStatus makes the owned fields of the object's status what intent says.
// The caller compares with the observed status first: a status has no version of
// its own to compare by.
func (a *Applier) ApplyStatus(ctx context.Context, intent runtime.ApplyConfiguration) error {
	object, _, err := prepare(intent)
	if err != nil {
		return err
	}
	err = a.writer.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), a.owner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying status of %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), asConflict(object, err))
	}
	return nil
}

// Forget drops what is remembered of an object, so that its next Apply is a
// call. Deleting callers use it.
func (a *Applier) Forget(apiVersion, kind, namespace, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.applied, objectKey{apiVersion, kind, namespace, name})
}

func (a *Applier) unchanged(key objectKey, digest [sha256.Size]byte, observed metav1.Object) (string, bool) {
	if observed == nil {
		return "", false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.applied[key]
	same := known && last.intent == digest && last.resourceVersion == observed.GetResourceVersion()
	return observed.GetResourceVersion(), same
}

func (a *Applier) remember(key objectKey, state appliedState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied[key] = state
}

// prepare turns an intent into an object of its own, because the API client
// overwrites what it is given with the server's answer.
func prepare(intent runtime.ApplyConfiguration) (*unstructured.Unstructured, [sha256.Size]byte, error) {
	data, err := json.Marshal(intent)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encoding an object to apply: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &object.Object); err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("decoding an object to apply: %w", err)
	}
	return object, sha256.Sum256(data), nil
}

func keyOf(object *unstructured.Unstructured) objectKey {
	return objectKey{object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName()}
}
