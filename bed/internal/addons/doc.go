// Package addons is what is installed into the cluster once its API answers: the name server, the storage class and
// cert-manager.
package addons
