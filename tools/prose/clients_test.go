package prose

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// The commands of docs/clients.md, as somebody copies them, with a clients CA that a kubectl shows.
func TestTheDocumentedClientCertificateIsOneOfTheClientsCA(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "openssl", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed here", program)
		}
	}
	folder, programs := t.TempDir(), t.TempDir()
	authority := clientsCA(t, programs)
	write(t, filepath.Join(programs, "kubectl"), `#!/bin/sh
case "$*" in
*my-clients-ca-cert*ca*crt*) base64 < "$(dirname "$0")/ca.crt" ;;
*my-clients-ca*ca*key*) base64 < "$(dirname "$0")/ca.key" ;;
*) exit 1 ;;
esac
`)
	page, err := os.ReadFile(filepath.Join(root, "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```bash\n(umask 077\n.*?)```").FindStringSubmatch(string(page))
	if block == nil {
		t.Fatal("docs/clients.md does not say how to make a client certificate")
	}
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", block[1])
	command.Dir = folder
	command.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("making a client certificate: %v\n%s", err, output)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "alice.pem"), filepath.Join(folder, "alice.pem"))
	if err != nil {
		t.Fatal(err)
	}
	anchors := x509.NewCertPool()
	anchors.AddCert(authority)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: anchors, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("the clients CA does not verify it: %v", err)
	}
	if pair.Leaf.Subject.String() != "CN=alice" || pair.Leaf.IsCA || pair.Leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("subject %s, CA %t, key usage %b", pair.Leaf.Subject, pair.Leaf.IsCA, pair.Leaf.KeyUsage)
	}
	left := names(t, folder, "*")
	slices.Sort(left)
	if want := []string{"alice.crt", "alice.csr", "alice.key", "alice.pem", "ext"}; !slices.Equal(want, left) {
		t.Errorf("the commands leave %v, want %v", left, want)
	}
}

// clientsCA puts ca.crt and ca.key into the folder.
func clientsCA(t *testing.T, folder string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"io.strimzi"}, CommonName: "clients-ca v0"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 4, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.crt": {Type: "CERTIFICATE", Bytes: der}, "ca.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		write(t, filepath.Join(folder, name), string(pem.EncodeToMemory(block)))
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
