package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/keyturn/keyturn/bed/internal/state"
)

const (
	// startLimit is how long one component may take until it answers.
	startLimit = 60 * time.Second
	askEvery   = 50 * time.Millisecond
	answerIn   = 2 * time.Second
)

// probe asks one component whether it works.
type probe func(context.Context) error

// probes says how to ask those components that have an answer which other programs can hear. They are asked from the
// node itself; the API server's and containerd's answers also reach the machine.
func probes(folder state.Folder) map[string]probe {
	return map[string]probe{
		"etcd":           func(ctx context.Context) error { return getOK(ctx, http.DefaultClient, etcdURL+"/health") },
		"containerd":     func(ctx context.Context) error { return connects(ctx, "unix", folder.ContainerdSocket()) },
		"kube-apiserver": func(ctx context.Context) error { return apiServerReady(ctx, keyring{folder}) },
	}
}

// await asks until the answer is good, the context ends or the limit is reached.
func await(ctx context.Context, name string, ask probe) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s gives no good answer: %w", name, err)
		case <-ticker.C:
		}
	}
}

func apiServerReady(ctx context.Context, keys keyring) error {
	authority, err := os.ReadFile(keys.Cert("ca"))
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return errors.New("the cluster's authority is no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	return getOK(ctx, &http.Client{Transport: transport}, APIURL()+"/readyz")
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

func connects(ctx context.Context, network, address string) error {
	connection, err := (&net.Dialer{Timeout: answerIn}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return connection.Close()
}
