package model

import (
	"fmt"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

const (
	dataDir = "/var/etcd"
	// program is etcd in the official images.
	program = "/usr/local/bin/etcd"
	// httpPort serves what etcd offers over HTTP, on loopback: beside gRPC on one port it would starve watches, and a
	// stopping member could not finish calls.
	httpPort = 2382
)

// etcdCommand is etcd with all its flags, but for those of a contract.Start.
func (c Cluster) etcdCommand(member, version string) []string {
	command := []string{
		program,
		"--name=" + member,
		"--data-dir=" + contract.DataDir,
		fmt.Sprintf("--listen-peer-urls=%s0.0.0.0:%d", c.Names.scheme(), contract.PeerPort),
		"--initial-advertise-peer-urls=" + c.Names.PeerURL(member),
		fmt.Sprintf("--listen-client-urls=%s0.0.0.0:%d", c.Names.scheme(), contract.ClientPort),
		fmt.Sprintf("--listen-client-http-urls=%s127.0.0.1:%d", c.Names.scheme(), httpPort),
		"--advertise-client-urls=" + c.Names.ClientURL(member),
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d,%s0.0.0.0:%d", contract.MetricsPort, c.Names.scheme(), contract.ScrapePort),
		c.corruptionFlag(version),
		"--initial-cluster-token=" + string(c.UID),
	}
	if c.Names.Mode != Insecure {
		command = append(command, c.securityFlags()...)
	}
	// The gateway would dial etcd with a certificate that only serves.
	return append(command, "--enable-grpc-gateway=false")
}

// securityFlags name what etcd presents and trusts.
func (c Cluster) securityFlags() []string {
	peer, client := filesOf(contract.PeerPlane), filesOf(contract.ClientPlane)
	if c.Names.Mode == Static {
		peer, client = peerEntries().files(peerSecretDir), serverEntries().files(serverSecretDir)
	}
	return []string{
		"--peer-cert-file=" + peer.certificate,
		"--peer-key-file=" + peer.key,
		"--peer-trusted-ca-file=" + peer.anchors,
		"--peer-client-cert-auth=true",
		"--cert-file=" + client.certificate,
		"--key-file=" + client.key,
		"--trusted-ca-file=" + client.anchors,
		"--client-cert-auth=true",
	}
}

// identityFiles are what etcd reads for a plane.
type identityFiles struct{ certificate, key, anchors string }

func filesOf(plane contract.Plane) identityFiles {
	return identityFiles{plane.CertificatePath(), plane.KeyPath(), plane.AnchorsPath()}
}

// isTuning reports whether an environment variable tunes etcd or the Go runtime. All others could change TLS,
// listeners, authentication or membership, or what the agent is told.
func isTuning(name string) bool {
	switch name {
	case "ETCD_AUTO_COMPACTION_MODE", "ETCD_AUTO_COMPACTION_RETENTION",
		"ETCD_BACKEND_BATCH_INTERVAL", "ETCD_BACKEND_BATCH_LIMIT", "ETCD_QUOTA_BACKEND_BYTES",
		"ETCD_ELECTION_TIMEOUT", "ETCD_HEARTBEAT_INTERVAL",
		"ETCD_GRPC_KEEPALIVE_INTERVAL", "ETCD_GRPC_KEEPALIVE_MIN_TIME", "ETCD_GRPC_KEEPALIVE_TIMEOUT",
		"ETCD_LOG_LEVEL", "ETCD_MAX_CONCURRENT_STREAMS", "ETCD_MAX_REQUEST_BYTES", "ETCD_MAX_TXN_OPS",
		"ETCD_MAX_WALS", "ETCD_METRICS", "ETCD_SNAPSHOT_COUNT",
		"GOGC", "GOMAXPROCS", "GOMEMLIMIT", "TZ":
		return true
	}
	return false
}
