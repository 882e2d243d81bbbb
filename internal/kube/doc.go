// Package kube is the one way in which Keyturn writes to the API server:
// server-side apply under a field owner of its own, no call for an object that
// is known to be as intended, and deletes that name the object's UID.
//
// It does not know what is written or why.
package kube
