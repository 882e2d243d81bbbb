package node

import (
	"path/filepath"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// Addresses of the bed. The machine and the node talk over a pair of interfaces; pods and services are routed to the
// node, so programs on the machine reach them directly.
const (
	// HostInterface is the machine's end of the pair, the one interface that is visible outside the node.
	HostInterface = "keyturn0"
	hostAddress   = "10.243.0.1/30"
	hostIP        = "10.243.0.1"
	nodeInterface = "eth0"
	nodeAddress   = "10.243.0.2/30"
	// NodeIP is the node's address, where the API server listens.
	NodeIP = "10.243.0.2"
	// APIPort is the API server's port on the node's address.
	APIPort = "6443"
	// PodNetwork holds the addresses of pods.
	PodNetwork = "10.244.0.0/16"
	// ServiceNetwork holds the addresses of services; it is small so that the machine's route to it covers little.
	ServiceNetwork = "10.96.0.0/16"
	// APIService is the address of the service "kubernetes".
	APIService = "10.96.0.1"
	// DNSService is the address of the cluster's name server.
	DNSService = "10.96.0.10"
	// Name is the name of the one node and its host name.
	Name = "keyturn-bed"
	// PauseImage is the image that holds a pod's namespaces.
	PauseImage = "keyturn.dev/pause:1"
	// VolumeProvisioner is the name under which storage classes ask the bed for volumes.
	VolumeProvisioner = "keyturn.dev/bed"
)

// cgroup is the bed's group in every cgroup hierarchy.
const cgroup = "keyturn-bed"

// Programs says where the built programs lie.
type Programs struct {
	// Bed is this very program; the node starts it again for its own parts.
	Bed string `json:"bed"`
	// Kubernetes is the directory with links named after the programs of the control plane and the node.
	Kubernetes string `json:"kubernetes"`
	// Runtime is the directory with containerd, its shim and runc.
	Runtime string `json:"runtime"`
	// CNI is the directory with the network plugins.
	CNI string `json:"cni"`
}

func (p Programs) kubernetes(name string) string { return filepath.Join(p.Kubernetes, name) }

// VolumesFolder is where the data of dynamic volumes lies.
func VolumesFolder(folder state.Folder) string { return folder.Run("volumes") }

// Kubectl is the client's program.
func (p Programs) Kubectl() string { return p.kubernetes("kubectl") }
