// Package admintest is what every admin.Client has to fulfil, the fake like the
// one of a real Kafka: whoever tests against the fake relies on it.
package admintest
