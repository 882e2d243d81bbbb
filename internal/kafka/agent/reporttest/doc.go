// Package reporttest is what every agent has to fulfil when it tells what its server
// runs on, the stand-in like a real one beside a real Kafka: whoever tests the operator
// against the stand-in relies on it.
package reporttest
