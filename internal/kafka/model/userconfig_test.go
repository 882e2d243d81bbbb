package model

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func TestForbiddenProperties(t *testing.T) {
	t.Parallel()
	for key, forbidden := range map[string]bool{
		"listeners":                                           true,
		"Listeners":                                           true,
		"advertised.listeners":                                true,
		"broker.id":                                           true,
		"broker.rack":                                         true,
		"broker.heartbeat.interval.ms":                        false,
		"listener.security.protocol.map":                      true,
		"listener.name.tls-9093.ssl.client.auth":              true,
		"listener.name.tls-9093.max.connections":              false,
		"listener.name.tls-9093.max.connections.per.ip":       false,
		"listener.name.tls-9093.connections.max.reauth.ms":    false,
		"listener.name.tls-9093.max.connection.creation.rate": false,
		"listener.name.tls-9093.x.max.connections":            true,
		"listener.name.max.connections":                       true,
		"inter.broker.listener.name":                          true,
		"sasl.enabled.mechanisms":                             true,
		"sasl.server.max.receive.size":                        false,
		"ssl.keystore.location":                               true,
		"ssl.principal.mapping.rules":                         true,
		"ssl.protocol":                                        false,
		"ssl.protocol.x":                                      true,
		"ssl.cipher.suites":                                   false,
		"security.inter.broker.protocol":                      true,
		"authorizer.class.name":                               true,
		"super.users":                                         true,
		"log.dir":                                             true,
		"log.dirs":                                            true,
		"metadata.log.dir":                                    true,
		"log.retention.hours":                                 false,
		"node.id":                                             true,
		"process.roles":                                       true,
		"controller.quorum.voters":                            true,
		"controller.quorum.fetch.timeout.ms":                  false,
		"zookeeper.connect":                                   true,
		"num.io.threads":                                      false,
		"":                                                    true,
	} {
		if got := forbiddenProperty(key); got != forbidden {
			t.Errorf("%q: forbidden is %t", key, got)
		}
	}
}

// A property of the user's never wins over one that the operator sets.
func TestTheOperatorsPropertiesWin(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	plain, _ := resolved(t, in)
	node := plain.Nodes[0]
	for key := range plain.ServerConfig(node) {
		in.Kafka.Spec.Kafka.Config[key] = kafkav1.ConfigValue(plain.ServerConfig(node)[key])
	}
	in.Kafka.Spec.Kafka.Config["node.id"] = "99"
	in.Kafka.Spec.Kafka.Config[" node.id "] = "98"
	again, findings := resolved(t, in)
	if diff := cmp.Diff(plain.ServerConfig(node), again.ServerConfig(node)); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if len(findings.Warnings) != 1 || !strings.Contains(findings.Warnings[0].Message, "node.id") {
		t.Errorf("warnings: %v", findings.Warnings)
	}
}

// Whatever a user writes, what the operator sets stays, and the file can be read.
func FuzzUserConfig(f *testing.F) {
	f.Add("num.io.threads", "8", "listener.name.replication-9091.ssl.client.auth", "none")
	f.Add("NODE.ID", "7", " log.dirs", "/\n/")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		taken, dropped := filterConfig(map[string]string{key1: value1, key2: value2})
		if len(taken)+len(dropped) > 2 {
			t.Errorf("%v and %v out of two", taken, dropped)
		}
		in := exampleInput()
		plain, _ := Resolve(in)
		in.Kafka.Spec.Kafka.Config = map[string]kafkav1.ConfigValue{key1: kafkav1.ConfigValue(value1), key2: kafkav1.ConfigValue(value2)}
		cluster, _ := Resolve(in)
		own := plain.networkProperties(plain.Nodes[0])
		got := cluster.ServerConfig(cluster.Nodes[0])
		for key, value := range own {
			if got[key] != value {
				t.Errorf("%s is %q", key, got[key])
			}
		}
		for key := range got {
			if _, set := own[key]; !set && strings.HasPrefix(strings.ToLower(key), "ssl.keystore") {
				t.Errorf("%s came through", key)
			}
		}
		if _, err := ParseProperties(got.Encode()); err != nil {
			t.Errorf("the file cannot be read: %s", err)
		}
	})
}

// Whoever declares a provider has said who resolves its references.
func TestReferencesToDeclaredProvidersAreTaken(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Config["config.providers"] = "env, strimzienv"
	in.Kafka.Spec.Kafka.Config["num.io.threads"] = "${strimzienv:THREADS}"
	in.Kafka.Spec.Kafka.Config["num.network.threads"] = "${env:THREADS}"
	cluster, _ := resolved(t, in)
	if got := cluster.ServerConfig(cluster.Nodes[0])["num.io.threads"]; got != "${strimzienv:THREADS}" {
		t.Errorf("num.io.threads is %q", got)
	}
}
