// Package issuertest is the suite that every implementation of issuer.Issuer
// passes, with the real signer behind it where there is one.
//
// It must not know any implementation: what one of them cannot do is listed as a
// Feature it lacks, and the list is part of what its documentation says.
package issuertest
