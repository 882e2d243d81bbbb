// Package listenercert checks the certificates that people bring for single listeners, in
// place of those that a node has from the cluster CA.
package listenercert
