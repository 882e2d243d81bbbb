package target

import (
	"context"
	"fmt"

	"github.com/keyturn/keyturn/internal/probe"
)

// Means are what a person or a test gave the clients to authenticate with. What is missing is made, with
// the rights of the user that runs the probe.
type Means struct {
	// Credential is the certificate for listeners that want one.
	Credential probe.Credential
	// Reissued is that of clients of kind probe.KindReissued; nil gives them
	// Credential, too.
	Reissued probe.Credential
	// Login is for listeners with SCRAM-SHA-512.
	Login *probe.Login
}

// Client puts together a client of one of the kinds that the probe knows, on a
// listener.
func (t *Target) Client(ctx context.Context, kind string, listener probe.Listener, means Means) (probe.Client, error) {
	identity := probe.Identity{Listener: listener}
	if listener.TLS {
		trust, err := t.Trust(ctx, kind)
		if err != nil {
			return probe.Client{}, fmt.Errorf("client %s: %w", kind, err)
		}
		identity.Trust = trust
	}
	switch listener.Auth {
	case probe.AuthTLS:
		if means.Credential == nil {
			return probe.Client{}, fmt.Errorf("client %s: listener %s wants a client certificate, and there is none", kind, listener.Name)
		}
		identity.Credential = means.credential(kind)
	case probe.AuthSCRAM:
		if means.Login == nil {
			return probe.Client{}, fmt.Errorf("client %s: listener %s wants user and password, and there are none", kind, listener.Name)
		}
		identity.Login = means.Login
	case probe.AuthNone:
	default:
		return probe.Client{}, fmt.Errorf("client %s: listener %s wants authentication of type %q, which the probe does not speak", kind, listener.Name, listener.Auth)
	}
	return probe.Client{Kind: kind, Identity: identity}, nil
}

func (m Means) credential(kind string) probe.Credential {
	if kind == probe.KindReissued && m.Reissued != nil {
		return m.Reissued
	}
	return m.Credential
}

// Trust is the trust of a kind of client.
func (t *Target) Trust(ctx context.Context, kind string) (probe.Trust, error) {
	source, err := t.ClusterCA()
	if err != nil {
		return nil, err
	}
	switch kind {
	case probe.KindPinned:
		return probe.Pin(ctx, source, probe.Bundle)
	case probe.KindBundle:
		return probe.Reread(source, probe.Bundle), nil
	case probe.KindFirst:
		return probe.Reread(source, probe.First), nil
	case probe.KindAll, probe.KindMTLS, probe.KindReissued, probe.KindSCRAM:
		return probe.Reread(source, probe.All), nil
	default:
		return nil, fmt.Errorf("kind %q has no trust on a listener with TLS", kind)
	}
}

// Fitting picks the listener for a kind that none was named for.
func (t *Target) Fitting(kind string) (probe.Listener, error) {
	for _, listener := range t.listeners {
		if listener.Name != Replication && listener.Name != ControlPlane && fits(kind, listener) {
			return listener, nil
		}
	}
	return probe.Listener{}, fmt.Errorf("kafka %s has no listener for clients of kind %s", t.names.Cluster, kind)
}

// fits says whether a listener is one for clients of a kind.
func fits(kind string, listener probe.Listener) bool {
	switch kind {
	case probe.KindPlain:
		return !listener.TLS
	case probe.KindMTLS, probe.KindReissued:
		return listener.TLS && listener.Auth == probe.AuthTLS
	case probe.KindSCRAM:
		return listener.Auth == probe.AuthSCRAM
	default:
		return listener.TLS
	}
}

// Operator is the identity of the cluster's operator on the replication listener:
// who may read its Secret may do everything.
func (t *Target) Operator() (*probe.Identity, error) {
	listener, err := t.Listener(Replication)
	if err != nil {
		return nil, err
	}
	own, err := t.Secret(t.names.Cluster + "-cluster-operator-certs")
	if err != nil {
		return nil, err
	}
	authorities, err := t.ClusterCA()
	if err != nil {
		return nil, err
	}
	return &probe.Identity{
		Listener:   listener,
		Trust:      probe.Reread(authorities, probe.All),
		Credential: probe.PresentFrom(own, "cluster-operator.crt", "cluster-operator.key"),
	}, nil
}
