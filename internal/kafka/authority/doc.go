// Package authority decides about the certificate authorities of a Kafka
// cluster and the leaves they issue: what the CA Secrets shall hold, when a CA
// is created, renewed or to be replaced, which anchors are trusted, and whether
// a stored leaf may stay.
//
// Every decision is a function of values: what was observed, what was asked
// for, the time. The package must not know how Secrets are read or written, nor
// how pods restart; it imports no client, no clock, no logger. Errors are
// written for the person who has to act on them.
package authority
