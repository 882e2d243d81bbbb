// Package openssl connects to Kafka's listeners with the program "openssl
// s_client": what it verifies, and what refuses it, owes nothing to the TLS of Go.
//
// Each connection is a process of its own that completes a request and ends. The
// package tells how that went in the words of package verdict, and does not judge
// whether it ought to have gone so.
package openssl
