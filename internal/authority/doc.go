// Package authority decides about the certificate authorities of a cluster
// and the leaves they issue: what the CA Secrets shall hold, when a CA is
// created, renewed, replaced, restored or a replacement is aborted, whose key
// signs whose, and whether a stored leaf may stay.
//
// Decide says what follows from the Secrets alone; Settle takes what was decided
// from the evidence of every peer (internal/trust) and says what the two CA
// Secrets shall hold. While v1 replaces v0:
//
//	key Secret             pending           promoted
//	  ca.key               v0                v1
//	  next-ca.key, .crt    v1
//	  next-ca-cross.crt    v1 signed by v0
//	  ca-cross.crt                           v1 signed by v0
//	  ca-<date>.key, .crt                    v0
//	certificate Secret
//	  ca.crt, ca.p12       v0, v1            v1, v0, in the end without v0
//	  ca-<date>.crt                          v0, in the end gone
//
// The key Secret is written first. The certificate Secret is a function of it and of the plan, so that a
// crash between the two writes leaves nothing to remember. The retired key stays after no process trusts
// it any more: applications may have pinned it, and it must cross-sign the next CA.
//
// Every decision is a function of values: what was observed, what was asked
// for, the time. The package must not know how Secrets are read or written, nor
// how pods restart or what they have loaded; it imports no client, no clock, no
// logger. Errors are written for the person who has to act on them.
package authority
