// Package certmanager is the issuer that asks cert-manager: one Certificate for each request, whose answer is read from
// the Secret that cert-manager writes.
//
// It decides what a Certificate says, which objects belong to the owner of the requests, and which answer
// was asked for. It does not know what leaves are for, nor what peers trust: it never reads ca.crt. It
// reads CertificateRequests and issuers when a request is late, and never writes them.
//
// API types of cert-manager are not imported: the dozen fields that are used are named here. Objects are addressed by
// resource instead of through a RESTMapper, so that an installation of cert-manager is seen without a restart.
package certmanager
