// Package issuer is the contract "a request becomes a certificate", for any signer. That is Keyturn's own
// authority, a certificate manager in the cluster, or an external signer that is asked by a request.
//
// It decides what a request may ask for and what an answer may be. It must not
// know where leaves are stored, who presents them, or when they are renewed. An
// implementation never waits for another system: an answer that is not there yet
// is Pending, and the caller asks again with the same request. Every
// implementation passes the suite in issuertest.
package issuer
