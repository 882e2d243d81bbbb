// Package reporttest tests the reports of an agent about the certificates that its server
// uses. A real agent beside a real Kafka and the stand-in must both pass it, because tests
// of the operator run against the stand-in.
package reporttest
