// Package apitest plays the user operator against a real API server.
package apitest
