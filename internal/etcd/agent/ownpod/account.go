package ownpod

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Environment variables and files that Kubernetes gives every container with an account.
const (
	hostVariable = "KUBERNETES_SERVICE_HOST"
	portVariable = "KUBERNETES_SERVICE_PORT"
	accountDir   = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenFile    = "token"
	caFile       = "ca.crt"
)

var (
	errNoServer = errors.New("$" + hostVariable + " and $" + portVariable + " must name the API server")
	errNoCA     = errors.New("no certificate in it")
)

// API is an API server, and how it is reached.
type API struct {
	URL       url.URL
	Transport http.RoundTripper
}

// InCluster is the API server of the cluster that the process runs in, as the account of its
// pod reaches it.
func InCluster() (API, error) {
	host, port := os.Getenv(hostVariable), os.Getenv(portVariable)
	if host == "" || port == "" {
		return API{}, errNoServer
	}
	account := Account{Dir: accountDir}
	if _, _, err := account.read(); err != nil {
		return API{}, err
	}
	return API{URL: url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, Transport: account}, nil
}

// Account sends requests with the token of a pod's account. It reads the token and the CA of
// the API server for each request, because the kubelet replaces them.
type Account struct {
	// Dir is where the kubelet mounts the account.
	Dir string
}

// RoundTrip implements http.RoundTripper. The few requests of an agent need no connection
// that stays open.
func (a Account) RoundTrip(request *http.Request) (*http.Response, error) {
	token, roots, err := a.read()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return transport.RoundTrip(request)
}

func (a Account) read() (token string, roots *x509.CertPool, err error) {
	data, err := os.ReadFile(filepath.Join(a.Dir, tokenFile))
	if err != nil {
		return "", nil, fmt.Errorf("reading the token: %w", err)
	}
	path := filepath.Join(a.Dir, caFile)
	certificates, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading the CA of the API server: %w", err)
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificates) {
		return "", nil, fmt.Errorf("reading the CA of the API server from %s: %w", path, errNoCA)
	}
	return strings.TrimSpace(string(data)), roots, nil
}
