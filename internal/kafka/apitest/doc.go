// Package apitest tests the controllers of a Kafka cluster against a real API server. A simulation
// replaces kubelets, agents and Kafka: its pods start, load what is published, and join. At every
// write and load, processes that connect to each other must accept each other. It holds tests only.
package apitest
