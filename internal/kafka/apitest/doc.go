// Package apitest tests the controllers of a Kafka cluster against a real API
// server. Kubelet, agents and Kafka are stood in for by a world that obeys: pods
// start, load what is published, and join. It holds tests only.
package apitest
