package v1

import (
	networkingv1 "k8s.io/api/networking/v1"
)

// ListenerType names how a listener is reached.
// +kubebuilder:validation:Enum=internal;route;tlsroute;loadbalancer;nodeport;ingress;cluster-ip
type ListenerType string

const (
	// ListenerInternal is reached by the DNS names of the headless and the bootstrap Service.
	ListenerInternal ListenerType = "internal"
	// ListenerRoute is reached through OpenShift Routes. Keyturn reports it as not supported.
	ListenerRoute ListenerType = "route"
	// ListenerTLSRoute is reached through TLSRoutes of the Gateway API. Keyturn reports it as not supported.
	ListenerTLSRoute ListenerType = "tlsroute"
	// ListenerLoadBalancer is reached through a load balancer per node. Keyturn reports it as not supported.
	ListenerLoadBalancer ListenerType = "loadbalancer"
	// ListenerNodePort is reached through ports of the Kubernetes nodes. Keyturn reports it as not supported.
	ListenerNodePort ListenerType = "nodeport"
	// ListenerIngress is reached through Ingresses with TLS passthrough. Keyturn reports it as not supported.
	ListenerIngress ListenerType = "ingress"
	// ListenerClusterIP is reached through a Service per node. Keyturn reports it as not supported.
	ListenerClusterIP ListenerType = "cluster-ip"
)

// ListenerAuthenticationType names how clients of a listener prove who they are.
// +kubebuilder:validation:Enum=tls;scram-sha-512;custom;oauth
type ListenerAuthenticationType string

const (
	// AuthenticationTLS asks for a certificate of the clients CA.
	AuthenticationTLS ListenerAuthenticationType = "tls"
	// AuthenticationSCRAM asks for a password by SCRAM-SHA-512.
	AuthenticationSCRAM ListenerAuthenticationType = "scram-sha-512"
	// AuthenticationCustom is configured by the user alone. Keyturn reports it as not supported.
	AuthenticationCustom ListenerAuthenticationType = "custom"
	// AuthenticationOAuth asks for a token, in manifests of v1beta2. Keyturn reports it as not supported.
	AuthenticationOAuth ListenerAuthenticationType = "oauth"
)

// Listener is a port that Kafka clients connect to. Ports 9404 and 9999 are the ones of metrics and JMX.
//
// +kubebuilder:validation:XValidation:rule="self.port != 9404 && self.port != 9999",message="ports 9404 (metrics) and 9999 (JMX) are reserved",fieldPath=.port,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.tls || !has(self.authentication) || self.authentication.type != 'tls'",messageExpression="'listener ' + self.name + ' authenticates by certificate (authentication.type tls) and therefore needs tls: true'",fieldPath=.tls,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.tls || !has(self.configuration) || !has(self.configuration.brokerCertChainAndKey)",messageExpression="'listener ' + self.name + ' has a certificate of its own (configuration.brokerCertChainAndKey) and therefore needs tls: true'",fieldPath=.tls,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.tls || !(self.type in ['route', 'tlsroute', 'ingress'])",messageExpression="'listener ' + self.name + ' is of type ' + self.type + ' and therefore needs tls: true'",fieldPath=.tls,reason=FieldValueInvalid
type Listener struct {
	// name of the listener, unique in the cluster.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]{1,11}$`
	// +kubebuilder:validation:MaxLength=11
	Name string `json:"name,omitempty"`
	// port of the listener in the pods and in the bootstrap Service, unique in the cluster.
	// +required
	// +kubebuilder:validation:Minimum=9092
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// type says how the listener is reached.
	// +required
	Type ListenerType `json:"type,omitempty"`
	// tls says whether connections are encrypted.
	// +required
	TLS bool `json:"tls"`
	// authentication of clients. If unset, all clients may connect.
	// +optional
	Authentication *ListenerAuthentication `json:"authentication,omitempty"`
	// configuration of the listener beyond the above.
	// +optional
	Configuration *ListenerConfiguration `json:"configuration,omitempty"`
	// networkPolicyPeers are the peers that may connect to the listener, where the network enforces
	// policies. If unset or empty, all peers may connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:XValidation:rule="has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",message="a peer needs a podSelector, a namespaceSelector or an ipBlock: leave networkPolicyPeers out to let all peers connect",reason=FieldValueRequired
	// +kubebuilder:validation:items:XValidation:rule="!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",message="an ipBlock stands alone: give it a peer of its own beside the one with selectors",fieldPath=.ipBlock,reason=FieldValueForbidden
	NetworkPolicyPeers []networkingv1.NetworkPolicyPeer `json:"networkPolicyPeers,omitempty"`
}

// ListenerAuthentication says how clients of a listener prove who they are.
type ListenerAuthentication struct {
	// type of the authentication.
	// +required
	Type ListenerAuthenticationType `json:"type,omitempty"`
}

// ListenerConfiguration configures a listener beyond its port and protocol.
type ListenerConfiguration struct {
	// brokerCertChainAndKey is a certificate of the user that the listener presents instead of one of
	// the cluster CA.
	// +optional
	BrokerCertChainAndKey *CertAndKeySecretSource `json:"brokerCertChainAndKey,omitempty"`
}

// CertAndKeySecretSource names a certificate and its key in a Secret of the same namespace.
type CertAndKeySecretSource struct {
	// secretName is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName,omitempty"`
	// certificate is the Secret's key that holds the chain: the leaf first, in PEM.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Certificate string `json:"certificate,omitempty"`
	// key is the Secret's key that holds the private key: PKCS#8 in PEM, without a passphrase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ListenerStatus tells clients where a listener is and which CA certificates to trust there.
type ListenerStatus struct {
	// name of the listener.
	// +optional
	// +kubebuilder:validation:MaxLength=11
	Name string `json:"name,omitempty"`
	// addresses that clients can start from.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Addresses []ListenerAddress `json:"addresses,omitempty"`
	// bootstrapServers are the addresses as clients take them: host:port, separated by commas.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	BootstrapServers string `json:"bootstrapServers,omitempty"`
	// certificates in PEM that a client needs to trust; only for listeners with TLS.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Certificates []string `json:"certificates,omitempty"`
}

// ListenerAddress is a place that clients can start from.
type ListenerAddress struct {
	// host is a DNS name or an IP address.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// port on the host.
	// +optional
	Port int32 `json:"port,omitempty"`
}
