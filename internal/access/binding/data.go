package binding

import (
	"crypto/x509"
	"fmt"
	"maps"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/pki"
)

// Keys of the Secrets that are copied from.
const (
	caCertificate = "ca.crt"
	// certificateEntry ends the keys of certificates in a Secret of a CA.
	certificateEntry = ".crt"
	userCertificate  = "user.crt"
	userKey          = "user.key"
	userPassword     = "password"
	userJAAS         = "sasl.jaas.config"
)

// Keys of the Secret that more than one function knows.
const (
	trustKeys    = "ssl.truststore."
	identityKeys = "ssl.keystore."

	truststore         = trustKeys + "crt"
	truststoreStore    = trustKeys + "p12"
	truststorePassword = trustKeys + "password"
	keystore           = identityKeys + "crt"
	keystoreKey        = identityKeys + "key"
	keystoreStore      = identityKeys + "p12"
	keystorePassword   = identityKeys + "password"

	username       = "username"
	usernameAlias  = "user"
	mechanism      = "sasl.mechanism"
	mechanismAlias = "saslMechanism"
)

// Layout is which keys the Secret has.
type Layout string

const (
	// PEM has PEM only, and some values under several keys because frameworks look for them under different names.
	PEM Layout = "PEM"
	// Stores has the keys of Strimzi's proposal 033: PEM beside PKCS#12 stores and their passwords.
	Stores Layout = "Stores"
)

// Stored is what a Secret holds that is copied from.
type Stored struct {
	Name string
	Data map[string][]byte
}

func (s Stored) value(key string) ([]byte, error) {
	if value := s.Data[key]; len(value) > 0 {
		return value, nil
	}
	return nil, &NotReadyError{
		Reason:  IncompleteSecret,
		Problem: fmt.Sprintf("Secret %s has no value under the key %s.", s.Name, key),
		Remedy:  "Wait until its operator has written the key, or add the key if the Secret is yours.",
	}
}

// certificates reads an entry that must hold certificates alone: a KafkaAccess must not be a way to read keys.
func (s Stored) certificates(key string) ([]*x509.Certificate, error) {
	value, err := s.value(key)
	if err != nil {
		return nil, err
	}
	certificates, err := pki.ParseBundle(value)
	if err != nil {
		return nil, unreadable(s.Name, key, err)
	}
	return certificates, nil
}

// Connection is what an application needs to connect to a Kafka cluster.
type Connection struct {
	Listener  kafkav1.Listener
	Bootstrap string
	// Truststore are CAs in PEM, empty where the client needs none or trusts them already.
	Truststore []byte
	User       User
	// Username is the name of a SCRAM user.
	Username string
	// Credentials are looked at where the user has a CredentialsSecret.
	Credentials Stored
}

// Data returns what the Secret holds. Of what it has held until now, passwords stay and so do stores that are current.
// The error is a *NotReadyError.
func (c *Connection) Data(layout Layout, held map[string][]byte) (map[string][]byte, error) {
	data := c.address()
	var err error
	if len(c.Truststore) > 0 {
		data[truststore] = c.Truststore
	}
	switch c.User {
	case SCRAM:
		err = c.addPassword(data)
	case TLS:
		err = c.addCertificate(data)
	default:
	}
	if err != nil {
		return nil, err
	}
	if layout == PEM {
		addAliases(data)
		return data, nil
	}
	return data, addStores(data, held)
}

func (c *Connection) address() map[string][]byte {
	return map[string][]byte{
		"type": []byte("kafka"), "provider": []byte("strimzi"),
		"bootstrap.servers": []byte(c.Bootstrap), "security.protocol": []byte(Protocol(&c.Listener)),
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

func (c *Connection) addPassword(data map[string][]byte) error {
	password, err := c.Credentials.value(userPassword)
	if err != nil {
		return err
	}
	jaas, err := c.Credentials.value(userJAAS)
	if err != nil {
		return err
	}
	data[username], data[userPassword], data[userJAAS] = []byte(c.Username), password, jaas
	data[mechanism] = []byte("SCRAM-SHA-512")
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
	data[keystore], data[keystoreKey] = certificate, key
	return nil
}

func addAliases(data map[string][]byte) {
	for alias, key := range map[string]string{
		"bootstrapServers": "bootstrap.servers", "bootstrap-servers": "bootstrap.servers", "securityProtocol": "security.protocol",
		usernameAlias: username, mechanismAlias: mechanism,
	} {
		if value, there := data[key]; there {
			data[alias] = value
		}
	}
}

// WithCredentialsOf returns data with the credentials that a Secret has held until now.
func WithCredentialsOf(held, data map[string][]byte) map[string][]byte {
	complete := maps.Clone(data)
	for _, key := range []string{
		username, usernameAlias, userPassword, userJAAS, mechanism, mechanismAlias, keystore, keystoreKey, keystoreStore, keystorePassword,
	} {
		if value, there := held[key]; there {
			complete[key] = value
		}
	}
	return complete
}
