// Package storage tells what stands in a node's data directories: whether they
// are formatted, and for which cluster and node.
//
// It reads only; formatting is the business of Kafka's own tool.
package storage
