package prose

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The commands of docs/clients.md, as somebody copies them, with a clients CA that a kubectl shows.
func TestTheDocumentedClientCertificateIsOneOfTheClientsCA(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "openssl", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed here; make needs installs it", program)
		}
	}
	folder, programs := t.TempDir(), t.TempDir()
	authority := clientsCA(t, programs)
	write(t, filepath.Join(programs, "kubectl"), `#!/bin/sh
case "$*" in
*my-cluster-clients-ca-cert*ca*crt*) base64 < "$(dirname "$0")/ca.crt" ;;
*my-cluster-clients-ca*ca*key*) base64 < "$(dirname "$0")/ca.key" ;;
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
	command := exec.CommandContext(t.Context(), "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
		"-nodes", "-days", "365", "-subj", "/O=io.strimzi/CN=clients-ca v0", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
		"-keyout", "ca.key", "-out", "ca.crt")
	command.Dir = folder
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("making a CA: %v: %s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
