// Package target finds out, from a Kafka resource and the Secrets beside it, what
// a probe needs to know about a cluster: its listeners, what its clients trust,
// and with which identity the topics of the probe are made.
//
// It reads as any client of the API server may, with the rights of the user that runs the probe. It must
// not know what the probe measures.
package target
