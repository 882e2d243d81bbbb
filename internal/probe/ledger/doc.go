// Package ledger decides what became of every record a probe client sent:
// acknowledged, failed, consumed, lost, duplicated, out of order; and how long
// the client was without an acknowledgement.
//
// It must not know Kafka, sockets or the clock: sequence numbers, partitions and
// times are arguments.
package ledger
