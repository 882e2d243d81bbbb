// Package reload lets a running Kafka server load other stores without a
// restart, and proves by handshakes what came of it.
//
// It writes a changed store into the slot that the server has not set, sets it,
// and believes nothing until each listener presents and trusts what it should.
// It decides neither what ought to be loaded nor when to try again; mounts,
// health and restarts are not its business.
package reload
