package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/publication"
)

// Values of Config.Roles.
const (
	RoleBroker     = "broker"
	RoleController = "controller"
)

// Config is the part of a node's configuration that the agent itself acts on.
// It changes only with the shape of the node, never with a certificate.
type Config struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	PodName   string   `json:"podName"`
	NodeID    int32    `json:"nodeId"`
	Roles     []string `json:"roles"`
	// Stores lists every TLS listener of the node, sorted by listener.
	Stores []publication.Store `json:"stores"`
	// JavaOptions are passed to the server's JVM in this order.
	JavaOptions []string `json:"javaOptions"`
	// DataDirs are the log directories, the metadata directory first.
	DataDirs []string `json:"dataDirs"`
	// GraceSeconds is how long the server may take to shut down cleanly.
	GraceSeconds int32 `json:"graceSeconds"`
}

// HasRole reports whether the node has the role.
func (c Config) HasRole(role string) bool { return slices.Contains(c.Roles, role) }

// ListensOn reports whether the node's server listens on the listener of a
// store: a node without the controller role has the control plane's store for
// its Raft client alone.
func (c Config) ListensOn(listener publication.Role) bool {
	return listener != ControlPlaneListener || c.HasRole(RoleController)
}

// ParseConfig reads the agent's configuration as the operator wrote it. It
// refuses one that no node can be started with.
func ParseConfig(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("parsing agent configuration: %w", err)
	}
	if problem := c.problem(); problem != "" {
		return Config{}, fmt.Errorf("agent configuration of %q is unusable: %s", c.PodName, problem)
	}
	return c, nil
}

// Encode renders the configuration deterministically.
func (c Config) Encode() ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding agent configuration: %w", err)
	}
	return data, nil
}

func (c Config) problem() string {
	switch {
	case c.PodName == "":
		return "it names no pod"
	case !c.HasRole(RoleBroker) && !c.HasRole(RoleController):
		return "the node is neither broker nor controller"
	case len(c.DataDirs) == 0:
		return "it names no data directory"
	case c.GraceSeconds < 0:
		return "its grace period is negative"
	}
	for _, s := range c.Stores {
		if s.Role == "" || s.Identity == "" {
			return "a store lacks its listener or its identity"
		}
		if s.Trust != ClusterDomain && s.Trust != ClientsDomain {
			return fmt.Sprintf("listener %s trusts the unknown domain %q", s.Role, s.Trust)
		}
	}
	return ""
}

// The two authorities of a Kafka cluster.
const (
	ClusterDomain publication.Domain = "cluster"
	ClientsDomain publication.Domain = "clients"
)

// Grace is how long the server may take to shut down cleanly.
func (c Config) Grace() time.Duration { return time.Duration(c.GraceSeconds) * time.Second }
