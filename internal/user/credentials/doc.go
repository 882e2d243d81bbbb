// Package credentials decides what the Secret of a Kafka user holds: whether its certificate stays or is
// issued, and under which entries clients find it. The entries are Strimzi's.
//
// It does not know where Secrets are stored, and reads no clock.
package credentials
