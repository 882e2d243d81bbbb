package node

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// life is how long the bed's own certificates hold, longer than any life of the bed.
const life = 365 * 24 * time.Hour

// keyring is the folder of the control plane's keys and certificates, made again for each life.
type keyring struct{ folder state.Folder }

// Cert is the path of a certificate; for "service-accounts" that of the public key.
func (k keyring) Cert(name string) string { return k.folder.Run("keys", name+".crt") }

// Key is the path of a private key.
func (k keyring) Key(name string) string { return k.folder.Run("keys", name+".key") }

// Kubeconfig is the path of a client's kubeconfig.
func (k keyring) Kubeconfig(name string) string { return k.folder.Run("keys", name+".kubeconfig") }

// identity is one certificate of the control plane; who has a user name gets a kubeconfig as well.
type identity struct {
	name          string
	user          string
	organizations []string
	usage         x509.ExtKeyUsage
	dnsNames      []string
	addresses     []net.IP
}

func identities() []identity {
	client := x509.ExtKeyUsageClientAuth
	return []identity{
		{
			name: "apiserver", usage: x509.ExtKeyUsageServerAuth,
			dnsNames:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			addresses: []net.IP{net.ParseIP(APIService), net.ParseIP(NodeIP), net.IPv4(127, 0, 0, 1)},
		},
		{
			name: "node-server", usage: x509.ExtKeyUsageServerAuth,
			dnsNames: []string{Name}, addresses: []net.IP{net.ParseIP(NodeIP)},
		},
		{name: "admin", user: "bed-admin", organizations: []string{"system:masters"}, usage: client},
		{name: "controller-manager", user: "system:kube-controller-manager", usage: client},
		{name: "scheduler", user: "system:kube-scheduler", usage: client},
		{name: "proxy", user: "system:kube-proxy", usage: client},
		{name: "kubelet", user: "system:node:" + Name, organizations: []string{"system:nodes"}, usage: client},
	}
}

// authority signs the certificates of one life.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// write makes a new authority and everything it signs.
func (k keyring) write(now time.Time) error {
	if err := os.MkdirAll(k.folder.Run("keys"), 0o700); err != nil {
		return fmt.Errorf("making the folder of keys: %w", err)
	}
	signer, err := k.writeAuthority(now)
	if err != nil {
		return fmt.Errorf("making the cluster's authority: %w", err)
	}
	for _, id := range identities() {
		if err := k.writeIdentity(signer, id, now); err != nil {
			return fmt.Errorf("making the certificate of %s: %w", id.name, err)
		}
	}
	if err := k.writeServiceAccountKey(); err != nil {
		return fmt.Errorf("making the key of service accounts: %w", err)
	}
	return nil
}

func (k keyring) writeAuthority(now time.Time) (authority, error) {
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "keyturn-bed"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	key, der, err := sign(template, nil, now)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, err
	}
	return authority{certificate: certificate, key: key}, k.writePair("ca", der, key)
}

func (k keyring) writeIdentity(signer authority, id identity, now time.Time) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.user, Organization: id.organizations},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{id.usage},
		DNSNames:    id.dnsNames,
		IPAddresses: id.addresses,
	}
	if id.user == "" {
		template.Subject.CommonName = id.name
	}
	key, der, err := sign(template, &signer, now)
	if err != nil {
		return err
	}
	if err := k.writePair(id.name, der, key); err != nil || id.user == "" {
		return err
	}
	return k.writeKubeconfig(id.name)
}

// sign makes a key and a certificate for it; without a signer it signs itself.
func sign(template *x509.Certificate, signer *authority, now time.Time) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(life)
	template.BasicConstraintsValid = true
	parent := authority{certificate: template, key: key}
	if signer != nil {
		parent = *signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.certificate, key.Public(), parent.key)
	return key, der, err
}

func (k keyring) writePair(name string, der []byte, key crypto.PrivateKey) error {
	if err := writePEM(k.Cert(name), "CERTIFICATE", der); err != nil {
		return err
	}
	return k.writeKey(name, key)
}

func (k keyring) writeKey(name string, key crypto.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(k.Key(name), "PRIVATE KEY", der)
}

func (k keyring) writeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(k.Cert("service-accounts"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return k.writeKey("service-accounts", key)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes a kubeconfig that holds its key itself, so that the file can be moved.
func (k keyring) writeKubeconfig(name string) error {
	var texts [3][]byte
	for i, path := range []string{k.Cert("ca"), k.Cert(name), k.Key(name)} {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[Name] = &clientcmdapi.Cluster{Server: APIURL(), CertificateAuthorityData: texts[0]}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: texts[1], ClientKeyData: texts[2]}
	config.Contexts[Name] = &clientcmdapi.Context{Cluster: Name, AuthInfo: name}
	config.CurrentContext = Name
	return clientcmd.WriteToFile(*config, k.Kubeconfig(name))
}

// APIURL is where the API server answers, for programs on the machine and on the node.
func APIURL() string { return "https://" + net.JoinHostPort(NodeIP, APIPort) }
