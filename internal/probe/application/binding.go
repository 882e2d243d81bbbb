package application

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"unicode"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
)

// The protocols and the mechanism that the client speaks, in the words of Kafka.
const (
	protocolPlain     = "PLAINTEXT"
	protocolTLS       = "SSL"
	protocolSASL      = "SASL_PLAINTEXT"
	protocolSASLTLS   = "SASL_SSL"
	mechanismSCRAM512 = "SCRAM-SHA-512"
)

// binding is what a mounted Secret says: where to connect, which CAs to trust, and as which user.
type binding struct {
	version   string
	addresses []string
	protocol  string
	trusted   []*x509.Certificate
	roots     *x509.CertPool
	// certificate is empty for an application without one.
	certificate tls.Certificate
	login       probe.Login
}

// fault is a file that the client cannot work with. Its text never has content of a
// file in it: every file may hold a key by mistake.
type fault struct{ file, directory, problem, remedy string }

// Error implements error.
func (f fault) Error() string {
	return fmt.Sprintf("file %s in %s %s: %s", f.file, f.directory, f.problem, f.remedy)
}

const (
	remedyMissing = "wait until the KafkaAccess is Ready, and mount its whole Secret there, without subPath"
	remedyWrong   = "mount the Secret of a KafkaAccess, which its operator writes, and delete one that was edited"
)

// reader reads the files of one version.
type reader struct {
	content

	directory string
}

func (r reader) fault(file, problem, remedy string) error {
	return fault{file: file, directory: r.directory, problem: problem, remedy: remedy}
}

// text is the content of a file that must be there.
func (r reader) text(file string) (string, error) {
	text := strings.TrimSpace(string(r.data[file]))
	if text == "" {
		problem := "is missing"
		if _, there := r.data[file]; there {
			problem = "is empty"
		}
		return "", r.fault(file, problem, remedyMissing)
	}
	return text, nil
}

// bind reads what the files say.
func bind(directory string, found content) (binding, error) {
	r := reader{content: found, directory: directory}
	b := binding{version: found.version}
	for _, part := range []func(*binding) error{r.readAddresses, r.readProtocol, r.readTrust, r.readCertificate, r.readLogin} {
		if err := part(&b); err != nil {
			return binding{}, err
		}
	}
	return b, nil
}

func (r reader) readAddresses(b *binding) error {
	text, err := r.text(fileBootstrap)
	if err != nil {
		return err
	}
	for address := range strings.SplitSeq(text, ",") {
		address = strings.TrimSpace(address)
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" || strings.ContainsFunc(address, notOfAddress) {
			return r.fault(fileBootstrap, "is not a list of HOST:PORT", remedyWrong)
		}
		b.addresses = append(b.addresses, address)
	}
	return nil
}

func notOfAddress(c rune) bool {
	return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(".-_:[]", c)
}

func (r reader) readProtocol(b *binding) error {
	text, err := r.text(fileProtocol)
	if err != nil {
		return err
	}
	switch text {
	case protocolPlain, protocolTLS, protocolSASL, protocolSASLTLS:
		b.protocol = text
		return nil
	default:
		return r.fault(fileProtocol, "has a protocol that is not supported",
			"connect to a listener with SSL, SASL_SSL, SASL_PLAINTEXT or PLAINTEXT")
	}
}

// tls says whether connections are encrypted.
func (b binding) tls() bool { return b.protocol == protocolTLS || b.protocol == protocolSASLTLS }

// sasl says whether the client logs in with a password.
func (b binding) sasl() bool { return b.protocol == protocolSASL || b.protocol == protocolSASLTLS }

func (r reader) readTrust(b *binding) error {
	if !b.tls() {
		return nil
	}
	text, err := r.text(fileTruststore)
	if err != nil {
		return err
	}
	if b.trusted, err = pki.ParseBundle([]byte(text)); err != nil {
		return r.fault(fileTruststore, "has not only PEM certificates in it, or one is cut off", remedyWrong)
	}
	b.roots = x509.NewCertPool()
	for _, certificate := range b.trusted {
		b.roots.AddCert(certificate)
	}
	return nil
}

// readCertificate reads the client certificate. A listener with TLS alone wants none.
func (r reader) readCertificate(b *binding) error {
	_, hasChain := r.data[fileKeystore]
	_, hasKey := r.data[fileKey]
	if b.protocol != protocolTLS || !hasChain && !hasKey {
		return nil
	}
	chain, err := r.text(fileKeystore)
	if err != nil {
		return err
	}
	key, err := r.text(fileKey)
	if err != nil {
		return err
	}
	if _, err := pki.ParseChain([]byte(chain)); err != nil {
		return r.fault(fileKeystore, "has not only PEM certificates in it, or one is cut off", remedyWrong)
	}
	if _, err := pki.ParsePrivateKey([]byte(key)); err != nil {
		return r.fault(fileKey, "is not one unencrypted PKCS#8 key in PEM, or it is cut off", remedyWrong)
	}
	if b.certificate, err = tls.X509KeyPair([]byte(chain), []byte(key)); err != nil {
		return r.fault(fileKey, "does not belong to the certificate in "+fileKeystore, remedyWrong)
	}
	return nil
}

func (r reader) readLogin(b *binding) (err error) {
	if !b.sasl() {
		return nil
	}
	mechanism, err := r.text(fileMechanism)
	if err != nil {
		return err
	}
	if mechanism != mechanismSCRAM512 {
		return r.fault(fileMechanism, "has a mechanism that is not supported", "connect to a listener with "+mechanismSCRAM512)
	}
	if b.login.User, err = r.text(fileUser); err != nil {
		return err
	}
	b.login.Password, err = r.text(filePassword)
	return err
}
