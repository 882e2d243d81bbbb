// Package freeport finds ports for servers that tests start as processes of their own.
package freeport

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Linux gives ports from 32768 on to connections and to listeners that name none (net.ipv4.ip_local_port_range), and Kubernetes
// those from 30000 on to Services. A port from there may be taken between its choice and the start of the server.
const lowest, highest = 12_000, 30_000

// apart is how many ports lie between those of a process and those of the next.
const apart = 997

// chosen counts ports: one that no server listens on yet is not chosen again.
var chosen atomic.Int64 //nolint:gochecknoglobals // tests that run at the same time share the ports of the machine

// Address is one of the loopback on which nothing listens, and which no connection is given.
func Address(tb testing.TB) string {
	tb.Helper()
	const attempts = 100
	for range attempts {
		offset := (int64(os.Getpid())*apart + chosen.Add(1)) % (highest - lowest)
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(lowest+offset, 10))
		listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			tb.Fatal(err)
		}
		return address
	}
	tb.Fatal("no port is free")
	return ""
}
