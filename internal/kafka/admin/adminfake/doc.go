// Package adminfake is a Kafka cluster in memory, as far as package admin can
// see one: nodes stop and come back, copies fall out of sync, quorums lose their
// leader. It passes the suite in admintest that a real Kafka passes.
//
// It is for tests of code that uses admin.Client.
package adminfake
