package mount

import (
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// Paths are the mounted directories.
type Paths struct {
	Node, ClusterTrust, ClientsTrust, Config, Pod string
}

// DefaultPaths are those of package contract.
func DefaultPaths() Paths {
	return Paths{
		Node:         agent.NodeDir,
		ClusterTrust: contract.ClusterTrustDir,
		ClientsTrust: contract.ClientsTrustDir,
		Config:       agent.ConfigDir,
		Pod:          agent.PodDir,
	}
}

// Reader reads the mounts of a Kafka node. It is safe for concurrent use.
type Reader struct {
	directories *mount.Reader
}

// NewReader makes a reader; it reads nothing yet.
func NewReader(paths Paths) *Reader {
	return &Reader{mount.NewReader(paths.Node, paths.ClusterTrust, paths.ClientsTrust, paths.Config, paths.Pod)}
}

// Read returns what is mounted now, and a number that grows whenever that has changed.
func (r *Reader) Read() (stores.Mounted, uint64, error) {
	directories, generation, err := r.directories.Read()
	if err != nil {
		return stores.Mounted{}, 0, err
	}
	return stores.Mounted{
		Node:         directories[0],
		ClusterTrust: directories[1],
		ClientsTrust: directories[2],
		Config:       directories[3],
		Pod:          directories[4],
	}, generation, nil
}
