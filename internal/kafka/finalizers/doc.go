// Package finalizers has the finalizers that keep an object until a Kafka has nothing of it any more: each names that Kafka.
package finalizers
