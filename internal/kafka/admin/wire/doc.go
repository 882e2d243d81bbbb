// Package wire sends single Kafka requests over a connection that the caller has
// opened. An agent queries its own node with it, without a whole Kafka client. It also
// queries controllers, which are no bootstrap servers: they answer no metadata requests.
//
// It negotiates nothing: the caller chooses the request's version.
package wire
