// Package release knows the releases of Apache Kafka that nodes run, and in what they differ.
//
// It is data and questions about it: what a server of a version can tell is asked of the server itself.
package release
