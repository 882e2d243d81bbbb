// Package apitest tests the controllers of a Kafka cluster against a real API
// server. Kubelets, agents and Kafka are stood in for by a world that obeys: pods
// start, load what is published, and join. Whatever happens there, at every write of
// an operator and every load of a server, everybody who talks to anybody has to
// accept him. It holds tests only.
package apitest
