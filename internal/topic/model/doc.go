// Package model decides what becomes of a KafkaTopic and of the topic that it stands for, and what its status reports. Fields,
// conditions and most reasons are Strimzi's.
//
// It reads nothing, and the time is an argument.
package model
