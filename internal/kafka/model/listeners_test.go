package model

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestProtocolsAndPortNames(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		listener           Listener
		protocol, portName string
	}{
		"plain":                  {Listener{Name: "plain", Port: 9092}, "PLAINTEXT", "tcp-clients"},
		"plain elsewhere":        {Listener{Name: "plain", Port: 9192}, "PLAINTEXT", "tcp-plain"},
		"tls":                    {Listener{Name: "tls", Port: 9093, TLS: true}, "SSL", "tcp-clientstls"},
		"certificates":           {Listener{Name: "mtls", Port: 9094, TLS: true, Authentication: TLSAuthentication}, "SSL", "tcp-mtls"},
		"passwords over tls":     {Listener{Name: "scram", Port: 9094, TLS: true, Authentication: SCRAMAuthentication}, "SASL_SSL", "tcp-scram"},
		"passwords in the clear": {Listener{Name: "scram", Port: 9094, Authentication: SCRAMAuthentication}, "SASL_PLAINTEXT", "tcp-scram"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.listener.protocol(); got != test.protocol {
				t.Errorf("protocol %s", got)
			}
			if got := test.listener.portName(); got != test.portName {
				t.Errorf("port name %s", got)
			}
		})
	}
}

func TestIdentifiersOfListeners(t *testing.T) {
	t.Parallel()
	listener := Listener{Name: "tls", Port: 9093}
	if listener.ID() != "TLS-9093" || listener.Key() != "tls-9093" {
		t.Errorf("%s and %s", listener.ID(), listener.Key())
	}
}

func TestStoresOfANode(t *testing.T) {
	t.Parallel()
	in := separate(3)
	in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{
		exampleListener("tls", 9093),
		{Name: "plain", Port: 9092, Type: kafkav1.ListenerInternal},
		{Name: "own", Port: 9094, Type: kafkav1.ListenerInternal, TLS: true, Configuration: &kafkav1.ListenerConfiguration{
			BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: "s", Certificate: "c", Key: "k"},
		}},
	}
	cluster, _ := resolved(t, in)
	controlPlane := publication.Store{Role: "controlplane-9090", Identity: publication.NodeIdentity, Trust: contract.ClusterDomain}
	want := map[string][]publication.Store{
		"my-controllers-0": {controlPlane},
		"my-brokers-3": {
			controlPlane,
			{Role: "own-9094", Identity: "own-9094", Trust: contract.ClientsDomain},
			{Role: "replication-9091", Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
			{Role: "tls-9093", Identity: publication.NodeIdentity, Trust: contract.ClientsDomain},
		},
	}
	for _, node := range []Node{cluster.Controllers()[0], cluster.Brokers()[0]} {
		if diff := cmp.Diff(want[node.Pod], cluster.Stores(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node.Pod, diff)
		}
	}
}

// Any two listeners are either refused or get everything that has to be unique,
// in the form that Kafka and Kubernetes ask for.
func FuzzListeners(f *testing.F) {
	f.Add("tls", int32(9093), true, "", "plain", int32(9092), false, "scram-sha-512")
	f.Add("clientstls", int32(9094), false, "tls", "tls", int32(9093), true, "custom")
	f.Add("replication", int32(8443), true, "tls", "", int32(-1), true, "")
	names := regexp.MustCompile(`^tcp-[a-z0-9]{1,11}$`)
	f.Fuzz(func(t *testing.T, name1 string, port1 int32, tls1 bool, auth1, name2 string, port2 int32, tls2 bool, auth2 string) {
		in := exampleInput()
		in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{
			{Name: name1, Port: port1, Type: kafkav1.ListenerInternal, TLS: tls1, Authentication: authentication(auth1)},
			{Name: name2, Port: port2, Type: kafkav1.ListenerInternal, TLS: tls2, Authentication: authentication(auth2)},
		}
		cluster, findings := Resolve(in)
		if findings.Err() != nil {
			return
		}
		properties := cluster.ServerConfig(cluster.Nodes[0])
		if ids := strings.Split(properties["listeners"], ","); len(ids) != 4 {
			t.Errorf("listeners %v", ids)
		}
		seen := map[string]bool{}
		for _, port := range cluster.containerPorts(cluster.Nodes[0]) {
			if seen[*port.Name] || !names.MatchString(*port.Name) || *port.ContainerPort < 1 {
				t.Errorf("port %s %d", *port.Name, *port.ContainerPort)
			}
			seen[*port.Name] = true
		}
		for _, listener := range cluster.Listeners {
			key := "listener.name." + string(listener.Key()) + ".ssl.client.auth"
			if required := properties[key] == "required"; required != (listener.Authentication == TLSAuthentication) {
				t.Errorf("%s is %q", key, properties[key])
			}
		}
	})
}

func authentication(kind string) *kafkav1.ListenerAuthentication {
	if kind == "" {
		return nil
	}
	return &kafkav1.ListenerAuthentication{Type: kafkav1.ListenerAuthenticationType(kind)}
}
