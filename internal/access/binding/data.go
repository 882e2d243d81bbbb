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
	data := map[string][]byte{}
	for _, part := range parts() {
		more, err := c.data(part, layout, held)
		if err != nil {
			return nil, err
		}
		maps.Copy(data, more)
	}
	return data, nil
}

func (c *Connection) data(part Part, layout Layout, held map[string][]byte) (data map[string][]byte, err error) {
	switch part {
	case Address:
		data = c.address()
	case Truststore:
		data = c.trust()
	default:
		data, err = c.identity()
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

func (c *Connection) trust() map[string][]byte {
	if len(c.Truststore) == 0 {
		return map[string][]byte{}
	}
	return map[string][]byte{truststore: c.Truststore}
}

func (c *Connection) identity() (map[string][]byte, error) {
	switch c.User {
	case SCRAM:
		return c.password()
	case TLS:
		return c.certificate()
	default:
		return map[string][]byte{}, nil
	}
}

func (c *Connection) password() (map[string][]byte, error) {
	password, err := c.Credentials.value(userPassword)
	if err != nil {
		return nil, err
	}
	jaas, err := c.Credentials.value(userJAAS)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		username: []byte(c.Username), userPassword: password, userJAAS: jaas, mechanism: []byte("SCRAM-SHA-512"),
	}, nil
}

func (c *Connection) certificate() (map[string][]byte, error) {
	certificate, err := c.Credentials.value(userCertificate)
	if err != nil {
		return nil, err
	}
	key, err := c.Credentials.value(userKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{keystore: certificate, keystoreKey: key}, nil
}

// aliases are the keys under which frameworks look for a value, with the key that has it.
func aliases() map[string]string {
	return map[string]string{
		"bootstrapServers": "bootstrap.servers", "bootstrap-servers": "bootstrap.servers", "securityProtocol": "security.protocol",
		usernameAlias: username, mechanismAlias: mechanism,
	}
}

func addAliases(data map[string][]byte) {
	for alias, key := range aliases() {
		if value, there := data[key]; there {
			data[alias] = value
		}
	}
}
