// Package pki makes, reads and checks X.509 material: keys, certificates,
// requests, bundles, chains and trust stores.
//
// It decides what a well-formed certificate, key or bundle is, and how the ones
// that Keyturn makes look. It must not know Kubernetes, Secrets or any server,
// does no I/O, and never reads a clock: the time is always an argument.
// Identity is always the SHA-256 of the DER (certificates) or of the public
// key (keys); common names, serial numbers and SHA-1 names identify nothing.
package pki
