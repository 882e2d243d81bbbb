// Package apitest plays the issuer against the real cert-manager and a real API server.
package apitest
