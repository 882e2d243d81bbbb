package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// Network is how the probe finds the nodes of a cluster and reaches them.
type Network interface {
	// Nodes are the nodes as last seen, ordered by name.
	Nodes() []reach.Node
	// Dial opens a TCP connection to an advertised "host:port".
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Auth is how a listener wants clients to say who they are.
type Auth string

// The ways of authentication, in the words of spec.kafka.listeners.
const (
	AuthNone  Auth = ""
	AuthTLS   Auth = "tls"
	AuthSCRAM Auth = "scram-sha-512"
)

// Listener is one listener of the cluster as a client sees it.
type Listener struct {
	Name string `json:"name"`
	Port int32  `json:"port"`
	TLS  bool   `json:"tls"`
	Auth Auth   `json:"auth,omitempty"`
	// Role says which nodes have the listener.
	Role Role `json:"role,omitempty"`
	// Bootstrap is the "host:port" a client starts from.
	Bootstrap string `json:"bootstrap,omitempty"`
}

// Role of the nodes that have a listener.
type Role string

// The roles; a listener without one is a broker's.
const (
	RoleBroker     Role = "broker"
	RoleController Role = "controller"
)

// On says whether a node has the listener.
func (l Listener) On(node reach.Node) bool {
	if l.Role == RoleController {
		return node.Controller
	}
	return node.Broker
}

// Login is a user and password for SCRAM-SHA-512.
type Login struct {
	User     string
	Password string
}

// String hides the password.
func (l Login) String() string { return l.User }

// Identity is how one client connects: what it trusts and how it says who it is.
type Identity struct {
	Listener Listener
	// Trust is asked at every dial. Nil on listeners without TLS.
	Trust Trust
	// Credential is asked at every dial. Nil for clients without certificate.
	Credential Credential
	// Login is used on listeners with AuthSCRAM.
	Login *Login
	// LoginFrom is asked at each login instead, where it is set.
	LoginFrom func(ctx context.Context) (Login, error)
}

// logsIn says whether the client has a password, and where from.
func (i Identity) logsIn() (from func(ctx context.Context) (Login, error), has bool) {
	switch {
	case i.LoginFrom != nil:
		return i.LoginFrom, true
	case i.Login != nil:
		return func(context.Context) (Login, error) { return *i.Login, nil }, true
	default:
		return nil, false
	}
}

// Client is one kind of client under test.
type Client struct {
	Identity

	// Kind names it, uniquely on its listener.
	Kind string
	// By makes its fresh connections, as that of a Watch does; nil leaves them to the
	// probe.
	By Attempt
}

// name tells the clients of a probe apart, in the characters of topic names.
func (c Client) name() string { return c.Kind + "." + c.Listener.Name }

// Options of a probe. Zero durations get their default.
type Options struct {
	// Run tells probes of one cluster apart: it is part of the topics' names.
	Run     string
	Network Network
	Clients []Client
	// Topic is used by the only client, where it has a name, instead of a topic that
	// the probe creates and deletes.
	Topic Topic
	// Admin creates and deletes the topics; nil leaves that to the first client.
	Admin *Identity
	// KeepTopics leaves the topics behind for a person to look at.
	KeepTopics bool
	// Grants are principals (without "User:") that get the rights they need on the
	// topics where the cluster authorises; needs Admin.
	Grants []string
	// Logins are SCRAM users that can log in for the time of the probe. They stay, with a password that is
	// not kept. Needs Admin.
	Logins []Login
	// Interval between the records of one client; 20 ms.
	Interval time.Duration
	// Deadline of each record; 30 s.
	Deadline time.Duration
	// HandshakeInterval between two fresh connections to one node; 1 s.
	HandshakeInterval time.Duration
	// Evidence asks a node what it trusts and presents; nil leaves that to what
	// handshakes show.
	Evidence observe.EvidenceFunc
	// Clock of all measurement; the real one when nil.
	Clock clock.WithTicker
}

const (
	defaultInterval          = 20 * time.Millisecond
	defaultDeadline          = 30 * time.Second
	defaultHandshakeInterval = time.Second
)

func (o Options) resolve() (Options, error) {
	if o.Network == nil || len(o.Clients) == 0 {
		return o, errors.New("a probe needs a network and at least one client")
	}
	if o.Topic.Name != "" && len(o.Clients) > 1 {
		return o, fmt.Errorf("topic %s is given for one client, and there are %d", o.Topic.Name, len(o.Clients))
	}
	seen := map[string]bool{}
	for _, client := range o.Clients {
		if client.Kind == "" || seen[client.name()] {
			return o, fmt.Errorf("client %q is given twice, or without a kind", client.name())
		}
		seen[client.name()] = true
		if client.Listener.TLS && client.Trust == nil {
			return o, fmt.Errorf("client %s: listener %s speaks TLS, and nothing says what to trust", client.Kind, client.Listener.Name)
		}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Interval = positive(o.Interval, defaultInterval)
	o.Deadline = positive(o.Deadline, defaultDeadline)
	o.HandshakeInterval = positive(o.HandshakeInterval, defaultHandshakeInterval)
	return o, nil
}

func positive(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
