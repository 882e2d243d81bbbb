// Package entityoperator describes what runs beside the nodes of a cluster for its users, as spec.entityOperator of the
// Kafka asks for.
package entityoperator
