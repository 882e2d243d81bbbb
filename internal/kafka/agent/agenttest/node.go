package agenttest

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// StoresDir is where the node's server finds its stores.
func (n *Node) StoresDir() string {
	return filepath.Join(n.options.RunDir, filepath.Base(agent.StoresDir))
}

// Pod returns the mounted downward API volume of a pod with the pin.
func Pod(tb testing.TB, pin publication.Publication) stores.Directory {
	tb.Helper()
	data, err := pin.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	line := agent.PinAnnotation + "=" + strconv.Quote(string(data)) + "\n" + `kubernetes.io/config.source="api"` + "\n"
	return stores.Directory{agent.AnnotationsFile: []byte(line)}
}

// Configuration returns the mounted ConfigMap of a node.
func Configuration(tb testing.TB, config contract.Config, clusterID, serverConfig string) stores.Directory {
	tb.Helper()
	data, err := config.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return stores.Directory{
		contract.AgentConfigKey:  data,
		contract.ClusterIDKey:    []byte(clusterID),
		contract.ServerConfigKey: []byte(serverConfig),
	}
}

// PutPublication adds the publication to a node's directory.
func PutPublication(tb testing.TB, directory stores.Directory, published publication.Publication) {
	tb.Helper()
	data, err := published.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	directory[agent.PublicationKey] = data
}

// WriteMounts writes all volumes below the directory and returns their paths.
func WriteMounts(tb testing.TB, below string, mounted stores.Mounted) mount.Paths {
	tb.Helper()
	paths := mount.Paths{
		Node:         filepath.Join(below, "node"),
		ClusterTrust: filepath.Join(below, "cluster-trust"),
		ClientsTrust: filepath.Join(below, "clients-trust"),
		Config:       filepath.Join(below, "config"),
		Pod:          filepath.Join(below, "pod"),
	}
	mounttest.WriteVolume(tb, paths.Node, mounted.Node)
	mounttest.WriteVolume(tb, paths.ClusterTrust, mounted.ClusterTrust)
	mounttest.WriteVolume(tb, paths.ClientsTrust, mounted.ClientsTrust)
	mounttest.WriteVolume(tb, paths.Config, mounted.Config)
	mounttest.WriteVolume(tb, paths.Pod, mounted.Pod)
	return paths
}
