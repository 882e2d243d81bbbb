// Package publication decides what each node of a Kafka cluster is told to
// trust and to present, and what a node that loaded something else is to be
// restarted for.
//
// It compares a wish (contract.Publication) with evidence (contract.TLSReport),
// never with annotations. It knows no Secrets, no pods and no clock.
package publication
