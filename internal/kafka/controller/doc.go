// Package controller reconciles Kafka resources: observe, decide, apply, act,
// report.
//
// What is decided is decided elsewhere, by packages without I/O: authority says
// what becomes of the CAs and leaves, model what the objects look like, rollout
// which pod may restart. This package reads what they need, writes what they
// return, in an order that survives a crash between any two writes, and tells
// people about it.
package controller
