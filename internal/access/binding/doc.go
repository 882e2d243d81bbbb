// Package binding decides what a KafkaAccess gets: which listener of the Kafka cluster its user can
// authenticate to, what its Secret holds, whose Secret of that name already is, and what its status says.
//
// It must not know how objects are read or written, and gets the time as an argument.
package binding

//go:generate go test . -run ^TestTheListenersPageIsCurrent$ -update
