package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/publication"
)

// maxReport bounds the answer of an agent.
const maxReport = 1 << 20

// Evidence asks the agents in the pods, as the operator, what a listener has
// loaded. Clusters without agents give none.
func (t *Target) Evidence(operator probe.Identity, listener probe.Listener) observe.EvidenceFunc {
	operator.Listener.TLS = true
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return operator.Connect(ctx, t.network, address)
		},
		MaxIdleConnsPerHost: 1,
	}}
	roles := map[string]publication.Role{
		"clients": roleOf(listener), "peers": contract.ReplicationListener, "control": contract.ControlPlaneListener,
	}
	return func(ctx context.Context, node reach.Node) (observe.Evidence, error) {
		report, err := ask(ctx, client, node)
		if err != nil {
			return observe.Evidence{}, err
		}
		evidence := observe.Evidence{Trusts: map[string][]string{}, Presents: report.Roles[roles["clients"]].Presents}
		names := t.anchorNames(ctx)
		for kind, role := range roles {
			if loaded, ok := report.Roles[role]; ok {
				evidence.Trusts[kind] = observe.Named(loaded.Trusts, names)
			}
		}
		return evidence, nil
	}
}

// anchorNames names what applications and nodes are told to trust, by SHA-256
// fingerprint.
func (t *Target) anchorNames(ctx context.Context) map[string]string {
	names := map[string]string{}
	cluster := t.names.Cluster
	for _, secret := range []string{
		authorities.Cluster.CertSecret(cluster), authorities.Cluster.TrustedCertsSecret(cluster), authorities.Clients.TrustedCertsSecret(cluster),
	} {
		source, err := t.Secret(secret)
		if err != nil {
			continue // an anchor without a name is shown by its fingerprint
		}
		data, _, err := source(ctx)
		if err != nil {
			continue
		}
		for _, text := range probe.All(data) {
			certificates, err := pki.ParseBundle(text)
			if err != nil {
				continue
			}
			for _, certificate := range certificates {
				names[pki.FingerprintOf(certificate).String()] = observe.AuthorityName(certificate)
			}
		}
	}
	return names
}

// roleOf is the identifier of a listener in Kafka's settings, as Strimzi makes it.
func roleOf(listener probe.Listener) publication.Role {
	return publication.Role(fmt.Sprintf("%s-%d", listener.Name, listener.Port))
}

func ask(ctx context.Context, client *http.Client, node reach.Node) (publication.Report, error) {
	var report publication.Report
	url := "https://" + hostPort(node.Host, agent.SecurePort) + agent.TLSPath
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return report, fmt.Errorf("asking agent of %s: %w", node.Name, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return report, fmt.Errorf("asking agent of %s: %w", node.Name, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	if response.StatusCode != http.StatusOK {
		return report, fmt.Errorf("asking agent of %s: %s", node.Name, response.Status)
	}
	body := http.MaxBytesReader(nil, response.Body, maxReport)
	if err := json.NewDecoder(body).Decode(&report); err != nil {
		return report, fmt.Errorf("reading answer of the agent of %s: %w", node.Name, err)
	}
	return report, nil
}
