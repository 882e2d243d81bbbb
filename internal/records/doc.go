// Package records remembers what was recorded last about the trust in each cluster, by this
// operator or the previous one, so that what says the same is not written again.
//
// It reads and writes nothing, and must not know a kind of server.
package records
