// Package wire sends single Kafka requests over a connection somebody else
// opened. It is for the two cases where a Kafka client is too much: an agent
// that asks its own node whether it serves yet, and a controller, which answers
// no metadata request and therefore is no bootstrap server for a client.
//
// It negotiates nothing: the request's version is the caller's choice.
package wire
