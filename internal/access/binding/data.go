package binding

import (
	"fmt"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Keys of the Secrets that are copied from.
const (
	caCertificate   = "ca.crt"
	userCertificate = "user.crt"
	userKey         = "user.key"
	userPassword    = "password"
	userJAAS        = "sasl.jaas.config"
)

// Source is a Secret that is copied from.
type Source struct {
	Name string
	Data map[string][]byte
}

func (s Source) value(key string) ([]byte, error) {
	if value := s.Data[key]; len(value) > 0 {
		return value, nil
	}
	return nil, &NotReadyError{
		Reason:  IncompleteSecret,
		Problem: fmt.Sprintf("Secret %s has no value under the key %s.", s.Name, key),
		Remedy:  "Wait until its operator has written the key, or add the key if the Secret is yours.",
	}
}

// Connection is what an application needs to connect to a Kafka cluster.
type Connection struct {
	Listener  kafkav1.Listener
	Bootstrap string
	// ClusterCA is looked at where NeedsClusterCA says so.
	ClusterCA Source
	User      User
	// Username is the name of a SCRAM user.
	Username string
	// Credentials are looked at where the user has a CredentialsSecret.
	Credentials Source
}

// Data returns what the Secret holds. Some values are there under several keys because frameworks look for
// them under different names. The error is a *NotReadyError.
func (c *Connection) Data() (map[string][]byte, error) {
	protocol := []byte(Protocol(&c.Listener))
	data := map[string][]byte{
		"type":     []byte("kafka"),
		"provider": []byte("strimzi"),

		"bootstrap.servers": []byte(c.Bootstrap),
		"bootstrapServers":  []byte(c.Bootstrap),
		"bootstrap-servers": []byte(c.Bootstrap),

		"security.protocol": protocol,
		"securityProtocol":  protocol,
	}
	if err := c.addTrust(data); err != nil {
		return nil, err
	}
	switch c.User {
	case SCRAM:
		return data, c.addPassword(data)
	case TLS:
		return data, c.addCertificate(data)
	default:
		return data, nil
	}
}

// Protocol is the security.protocol of a client, which follows from the listener alone. One with an authentication
// other than tls and scram-sha-512 gets the protocol without SASL: only its owner knows what else a client has to set.
func Protocol(listener *kafkav1.Listener) string {
	sasl := listener.Authentication != nil && listener.Authentication.Type == kafkav1.AuthenticationSCRAM
	switch {
	case sasl && listener.TLS:
		return "SASL_SSL"
	case sasl:
		return "SASL_PLAINTEXT"
	case listener.TLS:
		return "SSL"
	default:
		return "PLAINTEXT"
	}
}

// addTrust copies all of ca.crt: it holds several certificates while a CA is replaced.
func (c *Connection) addTrust(data map[string][]byte) error {
	needed, err := NeedsClusterCA(&c.Listener)
	if err != nil || !needed {
		return err
	}
	data["ssl.truststore.crt"], err = c.ClusterCA.value(caCertificate)
	return err
}

func (c *Connection) addPassword(data map[string][]byte) error {
	password, err := c.Credentials.value(userPassword)
	if err != nil {
		return err
	}
	jaas, err := c.Credentials.value(userJAAS)
	if err != nil {
		return err
	}
	mechanism := []byte("SCRAM-SHA-512")
	data["username"], data["user"] = []byte(c.Username), []byte(c.Username)
	data["password"] = password
	data["sasl.jaas.config"] = jaas
	data["sasl.mechanism"], data["saslMechanism"] = mechanism, mechanism
	return nil
}

func (c *Connection) addCertificate(data map[string][]byte) error {
	certificate, err := c.Credentials.value(userCertificate)
	if err != nil {
		return err
	}
	key, err := c.Credentials.value(userKey)
	if err != nil {
		return err
	}
	data["ssl.keystore.crt"], data["ssl.keystore.key"] = certificate, key
	return nil
}
