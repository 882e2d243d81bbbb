// Package harness is what demo, scenarios and benchmarks have in common: it
// installs Keyturn on the Kubernetes cluster of $KUBECONFIG, applies manifests,
// waits for what a person would wait for, puts load on a Kafka cluster and writes
// the report.
//
// It decides nothing about what ought to happen: that is for its callers to say.
// It must not know packages of the operator beyond what a client of the API and
// of Kafka knows.
package harness
