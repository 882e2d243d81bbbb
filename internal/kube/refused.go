package kube

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// IsRefused reports whether the API server answers the same request in the same way until a person changes something: a
// right, a quota, an admission policy, or an object in its way.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
