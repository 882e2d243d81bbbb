package binding_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

func plain() map[string]string {
	return map[string]string{
		"type": "kafka", "provider": "strimzi",
		"bootstrap.servers": "host:9092", "bootstrapServers": "host:9092", "bootstrap-servers": "host:9092",
		"security.protocol": "PLAINTEXT", "securityProtocol": "PLAINTEXT",
	}
}

func with(more map[string]string) map[string]string {
	data := plain()
	maps.Copy(data, more)
	return data
}

func protocol(name string, more map[string]string) map[string]string {
	data := with(more)
	data["security.protocol"], data["securityProtocol"] = name, name
	return data
}

func TestTheSecretHoldsWhatTheListenerAndTheUserNeed(t *testing.T) {
	t.Parallel()
	const trusted = "first\nsecond\n"
	password := map[string]string{
		"username": "my-user", "user": "my-user", "password": "letmein", "sasl.jaas.config": "module required;",
		"sasl.mechanism": "SCRAM-SHA-512", "saslMechanism": "SCRAM-SHA-512",
	}
	secured := maps.Clone(password)
	secured["ssl.truststore.crt"] = trusted
	for name, test := range map[string]struct {
		tls            bool
		authentication kafkav1.ListenerAuthenticationType
		user           binding.User
		want           map[string]string
	}{
		"no user, no encryption":        {user: binding.Anonymous, want: plain()},
		"no user, encrypted":            {tls: true, user: binding.Anonymous, want: protocol("SSL", map[string]string{"ssl.truststore.crt": trusted})},
		"no user, password needed":      {authentication: kafkav1.AuthenticationSCRAM, user: binding.Anonymous, want: protocol("SASL_PLAINTEXT", nil)},
		"no authentication of the user": {authentication: kafkav1.AuthenticationSCRAM, user: binding.Unauthenticated, want: protocol("SASL_PLAINTEXT", nil)},
		"password, no encryption":       {authentication: kafkav1.AuthenticationSCRAM, user: binding.SCRAM, want: protocol("SASL_PLAINTEXT", password)},
		"password, encrypted":           {tls: true, authentication: kafkav1.AuthenticationSCRAM, user: binding.SCRAM, want: protocol("SASL_SSL", secured)},
		"certificate": {
			tls: true, authentication: kafkav1.AuthenticationTLS, user: binding.TLS,
			want: protocol("SSL", map[string]string{"ssl.truststore.crt": trusted, "ssl.keystore.crt": "certificate", "ssl.keystore.key": "key"}),
		},
		"certificate that the application brings": {
			tls: true, authentication: kafkav1.AuthenticationTLS, user: binding.TLSExternal,
			want: protocol("SSL", map[string]string{"ssl.truststore.crt": trusted}),
		},
		"authentication that only its owner knows": {
			tls: true, authentication: kafkav1.AuthenticationCustom, user: binding.Anonymous,
			want: protocol("SSL", map[string]string{"ssl.truststore.crt": trusted}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := connectionAs(test.user)
			connection.Listener = listener("tls", kafkav1.ListenerInternal, test.tls, test.authentication)
			if test.tls {
				connection.Truststore = []byte(trusted)
			}
			data, err := connection.Data(binding.PEM, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for key, value := range data {
				got[key] = string(value)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("data differs (-want +got):\n%s", diff)
			}
		})
	}
}

func connectionAs(user binding.User) binding.Connection {
	return binding.Connection{
		Bootstrap: "host:9092", User: user, Username: "my-user",
		Credentials: binding.Stored{Name: "my-user", Data: map[string][]byte{
			"user.crt": []byte("certificate"), "user.key": []byte("key"), "user.p12": {1}, "ca.crt": []byte("clients"),
			"password": []byte("letmein"), "sasl.jaas.config": []byte("module required;"),
		}},
	}
}

func TestAnIncompleteSourceIsNamedWithItsKey(t *testing.T) {
	t.Parallel()
	for key, test := range map[string]struct {
		user           binding.User
		authentication kafkav1.ListenerAuthenticationType
		secret         string
	}{
		"user.crt":         {user: binding.TLS, authentication: kafkav1.AuthenticationTLS, secret: "my-user"},
		"user.key":         {user: binding.TLS, authentication: kafkav1.AuthenticationTLS, secret: "my-user"},
		"password":         {user: binding.SCRAM, authentication: kafkav1.AuthenticationSCRAM, secret: "my-user"},
		"sasl.jaas.config": {user: binding.SCRAM, authentication: kafkav1.AuthenticationSCRAM, secret: "my-user"},
	} {
		for how, spoil := range map[string]func(data map[string][]byte){
			"missing": func(data map[string][]byte) { delete(data, key) },
			"empty":   func(data map[string][]byte) { data[key] = nil },
		} {
			t.Run(key+" is "+how, func(t *testing.T) {
				t.Parallel()
				connection := connectionAs(test.user)
				connection.Listener = listener("tls", kafkav1.ListenerInternal, true, test.authentication)
				spoil(connection.Credentials.Data)
				_, err := connection.Data(binding.PEM, nil)
				if reason := problemOf(t, err); reason != binding.IncompleteSecret {
					t.Fatalf("the reason is %q", reason)
				}
				if !strings.Contains(err.Error(), "Secret "+test.secret+" ") || !strings.Contains(err.Error(), key) {
					t.Errorf("the message names another Secret or key: %v", err)
				}
			})
		}
	}
}
