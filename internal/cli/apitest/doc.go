// Package apitest runs the command line against a real API server, with the rights
// that the documentation tells people to grant and no others.
package apitest
