// Package model decides what becomes of a KafkaUser and renders what it consists of: whether its certificate
// stays or is issued, what its Secret holds, and what its status reports. Names and entries are Strimzi's.
//
// It reads nothing, and the time is an argument.
package model
