// Package imagepull says which Secrets images are pulled with, and what can be done about a pod that waits for its image.
//
// It is pure but for the types of Kubernetes objects, which it is about.
package imagepull
