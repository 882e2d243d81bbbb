// Package reloadtest tests a server that a reload.Reloader works on. A real Kafka and the
// stand-in must both pass it, because tests of reloads run against the stand-in.
package reloadtest
