// Package apitest plays the topic operator against a real API server.
package apitest
