package application

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestABindingIsReadOrItsFaultNamed(t *testing.T) {
	t.Parallel()
	ca := makeCA(t, "cluster-ca")
	good := mutual(t, ca, ca, "my-cluster-kafka-bootstrap.kafka.svc:9093")
	otherCertificate, otherKey := issue(t, ca, "other", pki.ClientAuth)
	password := secret{
		fileBootstrap: "a:9094,b:9094", fileProtocol: protocolSASLTLS, fileTruststore: good[fileTruststore],
		fileMechanism: mechanismSCRAM512, fileUser: "my-user", filePassword: "correct horse battery staple",
	}
	const wait, wrong = ": " + remedyMissing, ": " + remedyWrong
	tests := map[string]struct {
		of    secret
		patch secret
		fails string
	}{
		"a user with a certificate":          {of: good},
		"a user with a password":             {of: password},
		"a listener with TLS alone":          {of: good, patch: secret{fileKeystore: "", fileKey: ""}},
		"a listener without TLS":             {of: secret{fileBootstrap: "a:9092", fileProtocol: protocolPlain}},
		"spaces around values":               {of: good, patch: secret{fileBootstrap: " a:1 , b:2\n", fileProtocol: "SSL\n"}},
		"nothing yet":                        {of: secret{}, fails: "bootstrap.servers in DIR is missing" + wait},
		"no protocol":                        {of: good, patch: secret{fileProtocol: ""}, fails: "security.protocol in DIR is missing" + wait},
		"an empty protocol":                  {of: good, patch: secret{fileProtocol: "\n"}, fails: "security.protocol in DIR is empty" + wait},
		"no trust":                           {of: good, patch: secret{fileTruststore: ""}, fails: "ssl.truststore.crt in DIR is missing" + wait},
		"a certificate without key":          {of: good, patch: secret{fileKey: ""}, fails: "ssl.keystore.key in DIR is missing" + wait},
		"a key without certificate":          {of: good, patch: secret{fileKeystore: ""}, fails: "ssl.keystore.crt in DIR is missing" + wait},
		"no password":                        {of: password, patch: secret{filePassword: ""}, fails: "password in DIR is missing" + wait},
		"no user name":                       {of: password, patch: secret{fileUser: ""}, fails: "username in DIR is missing" + wait},
		"an unknown protocol":                {of: good, patch: secret{fileProtocol: "QUIC"}, fails: "security.protocol in DIR has a protocol that is not supported: connect to a listener with SSL, SASL_SSL, SASL_PLAINTEXT or PLAINTEXT"},
		"an unknown mechanism":               {of: password, patch: secret{fileMechanism: "PLAIN"}, fails: "sasl.mechanism in DIR has a mechanism that is not supported: connect to a listener with SCRAM-SHA-512"},
		"an address without port":            {of: good, patch: secret{fileBootstrap: "my-cluster"}, fails: "bootstrap.servers in DIR is not a list of HOST:PORT" + wrong},
		"one address of two without host":    {of: good, patch: secret{fileBootstrap: "a:1,:2"}, fails: "bootstrap.servers in DIR is not a list of HOST:PORT" + wrong},
		"a truststore that is cut off":       {of: good, patch: secret{fileTruststore: half(good[fileTruststore])}, fails: "ssl.truststore.crt in DIR has not only PEM certificates in it, or one is cut off" + wrong},
		"the second certificate is cut off":  {of: good, patch: secret{fileTruststore: good[fileTruststore] + half(good[fileTruststore])}, fails: "ssl.truststore.crt in DIR has not only PEM certificates in it, or one is cut off" + wrong},
		"a key among what is trusted":        {of: good, patch: secret{fileTruststore: good[fileTruststore] + otherKey}, fails: "ssl.truststore.crt in DIR has not only PEM certificates in it, or one is cut off" + wrong},
		"a key that is cut off":              {of: good, patch: secret{fileKey: half(otherKey)}, fails: "ssl.keystore.key in DIR is not one unencrypted PKCS#8 key in PEM, or it is cut off" + wrong},
		"a certificate in place of the key":  {of: good, patch: secret{fileKey: otherCertificate}, fails: "ssl.keystore.key in DIR is not one unencrypted PKCS#8 key in PEM, or it is cut off" + wrong},
		"the key in place of a certificate":  {of: good, patch: secret{fileKeystore: otherKey}, fails: "ssl.keystore.crt in DIR has not only PEM certificates in it, or one is cut off" + wrong},
		"the key of another certificate":     {of: good, patch: secret{fileKey: otherKey}, fails: "ssl.keystore.key in DIR does not belong to the certificate in ssl.keystore.crt" + wrong},
		"the key where the address ought be": {of: good, patch: secret{fileBootstrap: otherKey}, fails: "bootstrap.servers in DIR is not a list of HOST:PORT" + wrong},
		"the key where the protocol is":      {of: good, patch: secret{fileProtocol: otherKey}, fails: "security.protocol in DIR has a protocol that is not supported: connect to a listener with SSL, SASL_SSL, SASL_PLAINTEXT or PLAINTEXT"},
		"the password where the mechanism is": {
			of: password, patch: secret{fileMechanism: password[filePassword]},
			fails: "sasl.mechanism in DIR has a mechanism that is not supported: connect to a listener with SCRAM-SHA-512",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			files := test.of.with(test.patch)
			files.mount(t, directory, "..v1")
			found, err := read(directory)
			if err != nil {
				t.Fatal(err)
			}
			_, err = bind(directory, found)
			want := test.fails
			if want != "" {
				want = "file " + want
			}
			if got := strings.ReplaceAll(message(err), directory, "DIR"); got != want {
				t.Errorf("it fails with\n%q, want\n%q", got, want)
			}
			for _, hidden := range []string{files[fileKey], otherKey, password[filePassword]} {
				if reveals(message(err), hidden) {
					t.Errorf("the error reveals key material: %v", err)
				}
			}
		})
	}
}

// half of a PEM text, as it is in a file that is being written.
func half(text string) string { return text[:len(text)/2] }

// reveals says whether a text has a part of a secret in it. Lines of PEM that only say
// what it is are no secret.
func reveals(text, hidden string) bool {
	for line := range strings.Lines(hidden) {
		line = strings.TrimSpace(line)
		if len(line) > 7 && !strings.HasPrefix(line, "-----") && strings.Contains(text, line[:8]) {
			return true
		}
	}
	return false
}
