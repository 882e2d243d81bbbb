// Package membership decides the next act that brings a cluster to its size: a new cluster is one member, and every
// other joins as a learner and is promoted when it has caught up. An act that was cut off by a crash is recognised by
// what it has left behind.
//
// It reads nothing.
package membership
