package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Ports that every cluster has.
const (
	// ControlPlanePort is where controllers listen.
	ControlPlanePort = 9090
	// ReplicationPort is where brokers listen to each other and to operators.
	ReplicationPort = 9091
	lowestUserPort  = 9092
	highestPort     = 65535
	metricsPort     = 9404
	jmxPort         = 9999
)

// Identifiers of the two listeners that every cluster has.
const (
	ControlPlaneListener publication.Role = "controlplane-9090"
	ReplicationListener  publication.Role = "replication-9091"
)

const (
	controlPlaneID = "CONTROLPLANE-9090"
	replicationID  = "REPLICATION-9091"
)

// Authentication says how clients of a listener prove who they are.
type Authentication string

// The kinds of authentication.
const (
	// NoAuthentication maps all clients to User:ANONYMOUS.
	NoAuthentication Authentication = "none"
	// TLSAuthentication asks for a certificate of the clients CA.
	TLSAuthentication Authentication = "tls"
	// SCRAMAuthentication asks for a password by SCRAM-SHA-512.
	SCRAMAuthentication Authentication = "scram-sha-512"
)

// Listener is a listener of the user's, of type internal.
type Listener struct {
	Name           string
	Port           int32
	TLS            bool
	Authentication Authentication
	// Certificate is the user's own certificate for the listener, nil when the
	// node's is presented.
	Certificate *CertificateSource

	peers []networkingv1.NetworkPolicyPeer
}

// CertificateSource says where a certificate of the user's is found.
type CertificateSource struct {
	// Secret is its name, in the namespace of the Kafka.
	Secret string
	// CertificateKey and PrivateKeyKey are the entries of the Secret.
	CertificateKey, PrivateKeyKey string
}

// ID is the listener's name in Kafka's listeners property.
func (l Listener) ID() string { return strings.ToUpper(string(l.Key())) }

// Key is the listener's name in listener.name.<key>. properties, in publications
// and in the names of custom certificates.
func (l Listener) Key() publication.Role {
	return publication.Role(l.Name + "-" + strconv.FormatInt(int64(l.Port), 10))
}

// protocol is Kafka's security protocol of the listener.
func (l Listener) protocol() string {
	switch {
	case l.TLS && l.Authentication == SCRAMAuthentication:
		return "SASL_SSL"
	case l.TLS:
		return "SSL"
	case l.Authentication == SCRAMAuthentication:
		return "SASL_PLAINTEXT"
	default:
		return "PLAINTEXT"
	}
}

// portName is the name of the listener's port in Services and pods.
func (l Listener) portName() string {
	switch {
	case l.Name == "plain" && l.Port == 9092:
		return "tcp-clients"
	case l.Name == "tls" && l.Port == 9093:
		return "tcp-clientstls"
	default:
		return "tcp-" + l.Name
	}
}

// reservedPort says what a port is reserved for.
func reservedPort(port int32) (string, bool) {
	switch port {
	case ControlPlanePort:
		return "controllers", true
	case ReplicationPort:
		return "replication", true
	case agent.SecurePort, agent.ProbePort:
		return "the agent", true
	case metricsPort:
		return "metrics", true
	case jmxPort:
		return "JMX", true
	default:
		return "", false
	}
}

// reservedName reports whether a listener of that name would take the name or
// the port name of one that every cluster has.
func reservedName(name string) bool {
	return slices.Contains([]string{"controlplane", "ctrlplane", "replication", "kafkaagent"}, name)
}

// resolveListeners validates the listeners of the Kafka.
func (r *resolver) resolveListeners() []Listener {
	specs := r.in.Kafka.Spec.Kafka.Listeners
	if len(specs) == 0 {
		r.errorf(r.kafkaObject(), "spec.kafka.listeners is empty: name at least one listener, such as {name: tls, port: 9093, type: internal, tls: true}")
	}
	listeners := make([]Listener, 0, len(specs))
	for i := range specs {
		r.checkListener(&specs[i])
		listeners = append(listeners, newListener(&specs[i]))
	}
	slices.SortStableFunc(listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Name, b.Name))
	})
	r.checkDistinct(listeners)
	return listeners
}

func newListener(spec *kafkav1.Listener) Listener {
	listener := Listener{Name: spec.Name, Port: spec.Port, TLS: spec.TLS, Authentication: NoAuthentication, peers: spec.NetworkPolicyPeers}
	if spec.Authentication != nil {
		listener.Authentication = Authentication(spec.Authentication.Type)
	}
	if spec.Configuration != nil && spec.Configuration.BrokerCertChainAndKey != nil {
		source := spec.Configuration.BrokerCertChainAndKey
		listener.Certificate = &CertificateSource{
			Secret:         source.SecretName,
			CertificateKey: source.Certificate,
			PrivateKeyKey:  source.Key,
		}
	}
	return listener
}

func (r *resolver) checkListener(spec *kafkav1.Listener) {
	object := r.kafkaObject()
	if !validListenerName(spec.Name) {
		r.errorf(object, "listener %q: the name must be 1 to 11 lower-case letters and digits", spec.Name)
	}
	if reservedName(spec.Name) {
		r.errorf(object, "listener %s: the name is reserved for the cluster itself: choose another name", spec.Name)
	}
	if use, reserved := reservedPort(spec.Port); reserved {
		r.errorf(object, "listener %s: port %d is reserved for %s: choose another port from %d up", spec.Name, spec.Port, use, lowestUserPort)
	} else if spec.Port < lowestUserPort || spec.Port > highestPort {
		r.errorf(object, "listener %s: port %d is not between %d and %d", spec.Name, spec.Port, lowestUserPort, highestPort)
	}
	if spec.Type != kafkav1.ListenerInternal {
		r.errorf(object, "listener %s: type %s is not supported by this version of Keyturn: use type %s", spec.Name, spec.Type, kafkav1.ListenerInternal)
	}
	r.checkAuthentication(spec)
	r.checkCertificateSource(spec)
	r.checkPeers(spec)
}

func validListenerName(name string) bool {
	if len(name) < 1 || len(name) > 11 {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
}

func (r *resolver) checkAuthentication(spec *kafkav1.Listener) {
	if spec.Authentication == nil {
		return
	}
	switch spec.Authentication.Type {
	case kafkav1.AuthenticationTLS:
		if !spec.TLS {
			r.errorf(r.kafkaObject(), "listener %s: authentication by certificate needs tls: true", spec.Name)
		}
	case kafkav1.AuthenticationSCRAM:
	case kafkav1.AuthenticationCustom, kafkav1.AuthenticationOAuth:
		r.errorf(r.kafkaObject(), "listener %s: authentication type %s is not supported: use %s or %s",
			spec.Name, spec.Authentication.Type, kafkav1.AuthenticationTLS, kafkav1.AuthenticationSCRAM)
	default:
		r.errorf(r.kafkaObject(), "listener %s: authentication type %q is unknown: use %s or %s",
			spec.Name, spec.Authentication.Type, kafkav1.AuthenticationTLS, kafkav1.AuthenticationSCRAM)
	}
}

func (r *resolver) checkCertificateSource(spec *kafkav1.Listener) {
	if spec.Configuration == nil || spec.Configuration.BrokerCertChainAndKey == nil {
		return
	}
	source := spec.Configuration.BrokerCertChainAndKey
	if !spec.TLS {
		r.errorf(r.kafkaObject(), "listener %s: brokerCertChainAndKey needs tls: true", spec.Name)
	}
	if source.SecretName == "" || source.Certificate == "" || source.Key == "" {
		r.errorf(r.kafkaObject(), "listener %s: brokerCertChainAndKey needs secretName, certificate and key", spec.Name)
	}
}

// checkDistinct refuses listeners that share a name, a port or a port name.
func (r *resolver) checkDistinct(listeners []Listener) {
	names, ports, portNames := map[string]bool{}, map[int32]string{}, map[string]string{}
	for _, listener := range listeners {
		if names[listener.Name] {
			r.errorf(r.kafkaObject(), "listener %s: the name is used twice: give each listener a name of its own", listener.Name)
			continue
		}
		names[listener.Name] = true
		if other, taken := ports[listener.Port]; taken {
			r.errorf(r.kafkaObject(), "listeners %s and %s share port %d: give each a port of its own", other, listener.Name, listener.Port)
		}
		ports[listener.Port] = listener.Name
		if other, taken := portNames[listener.portName()]; taken {
			r.errorf(r.kafkaObject(), "listeners %s and %s would share the port name %s in Services: rename one", other, listener.Name, listener.portName())
		}
		portNames[listener.portName()] = listener.Name
	}
}

// ServedListeners leaves out the listeners that no node may serve yet, because nodes are still to be restarted for them.
// In a cluster that has served none, all are there.
func ServedListeners(before, wanted []kafkav1.ListenerStatus) []kafkav1.ListenerStatus {
	if len(before) == 0 {
		return wanted
	}
	return slices.DeleteFunc(wanted, func(listener kafkav1.ListenerStatus) bool {
		return !slices.ContainsFunc(before, func(b kafkav1.ListenerStatus) bool { return b.Name == listener.Name })
	})
}

// ListenerStatuses are the addresses of the user's listeners, by port.
// certificates are what clients of a TLS listener have to trust, in PEM.
func (c Cluster) ListenerStatuses(certificates map[publication.Role][]string) []kafkav1.ListenerStatus {
	statuses := make([]kafkav1.ListenerStatus, 0, len(c.Listeners))
	for _, listener := range c.Listeners {
		host := c.Names.BootstrapHost()
		status := kafkav1.ListenerStatus{
			Name:             listener.Name,
			Addresses:        []kafkav1.ListenerAddress{{Host: host, Port: listener.Port}},
			BootstrapServers: host + ":" + strconv.FormatInt(int64(listener.Port), 10),
		}
		if listener.TLS {
			status.Certificates = slices.Clone(certificates[listener.Key()])
		}
		statuses = append(statuses, status)
	}
	return statuses
}
