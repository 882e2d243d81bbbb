// Package certmanager is the issuer that asks cert-manager: one Certificate for each request, whose answer is read from
// the Secret that cert-manager writes.
//
// It decides what a Certificate says, which objects belong to the owner of the requests, and when an answer is the one
// that was asked for. It must not know what the leaves are for, nor whom peers trust: ca.crt of such a Secret is never
// read. CertificateRequests and issuers are read when a request is late, and never written.
//
// API types of cert-manager are not imported: the dozen fields that are used are named here. Objects are addressed by
// resource instead of through a RESTMapper, so that an installation of cert-manager is seen without a restart.
package certmanager
