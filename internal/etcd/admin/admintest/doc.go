// Package admintest has a cluster in memory for tests, and the tests that it and real clusters pass.
package admintest
