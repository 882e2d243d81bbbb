// Package client asks the agents inside Kafka pods what their servers have
// loaded and whether they are ready. It is the operator's side of package
// contract.
//
// Every question is a connection of its own: what a connection verified an hour
// ago proves nothing about now. It keeps no state and decides nothing.
package client
