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
	// startLimit is how long one component may take until it answers, on a machine that is busy with other things.
	startLimit = 3 * time.Minute
	askEvery   = 50 * time.Millisecond
	answerIn   = 2 * time.Second
)

// probe asks one component whether it works.
type probe func(context.Context) error

// probes says how to ask those components that can be asked. All of them answer on the node's address, so the node
// itself and the machine ask in the same way.
func probes(folder state.Folder) map[string]probe {
	web := func(url string) probe {
		return func(ctx context.Context) error { return askWeb(ctx, keyring{folder}, url) }
	}
	return map[string]probe{
		"containerd":              func(ctx context.Context) error { return connects(ctx, "unix", folder.ContainerdSocket()) },
		"etcd":                    web(etcdHealthURL + "/health"),
		"kube-apiserver":          web(APIURL() + "/readyz"),
		"kube-controller-manager": web("https://" + NodeIP + ":10257/healthz"),
		"kube-proxy":              web("http://" + NodeIP + ":10256/healthz"),
		"kube-scheduler":          web("https://" + NodeIP + ":10259/healthz"),
		"kubelet":                 web("http://" + NodeIP + ":10248/healthz"),
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

// askWeb trusts the cluster's own authority and no other.
func askWeb(ctx context.Context, keys keyring, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking for its health: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // nothing of it is read
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
