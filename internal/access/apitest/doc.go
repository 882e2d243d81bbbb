// Package apitest tests the access operator against a real API server, with the rights that it asks for and no
// others. It holds tests only.
package apitest
