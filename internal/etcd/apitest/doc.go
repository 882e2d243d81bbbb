// Package apitest tests the etcd operator against a real API server. It holds tests only.
package apitest
