package harness

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/e2e/harness/openssl"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// Watchers connect to a cluster with OpenSSL.
type Watchers struct {
	// Folder takes the files of the OpenSSL clients, and is removed by its owner.
	Folder string
	Target *target.Target
}

// patience is how long one connection of a watcher may take. It tells who is accepted
// and not how soon: its process yields to everybody else, and on a busy machine it
// may not run for seconds.
const patience = 30 * time.Second

// Only is a watch that trusts one authority and nothing else, by a process of
// OpenSSL for each connection.
func (w Watchers) Only(name, listener string, authority *x509.Certificate) (probe.Watch, error) {
	on, err := w.Target.Listener(listener)
	if err != nil {
		return probe.Watch{}, err
	}
	client, err := openssl.New(openssl.Options{
		Folder: w.Folder, Name: pki.SHA1Name(authority) + "-" + listener, Dial: w.Target.Network().Dial,
		Authorities: pki.EncodeBundle(authority),
	})
	if err != nil {
		return probe.Watch{}, err
	}
	return probe.Watch{
		Name: name, Identity: probe.Identity{Listener: on},
		By: func(ctx context.Context, node reach.Node) (observe.Presented, error) {
			bounded, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return observe.Presented{}, client.Connect(bounded, addressOf(node, on))
		},
	}, nil
}

func addressOf(node reach.Node, listener probe.Listener) string {
	return net.JoinHostPort(node.Host, strconv.Itoa(int(listener.Port)))
}

// leafValidity is longer than any scenario.
const leafValidity = time.Hour

// Leaf is a client certificate of an authority with what such clients present
// besides.
func Leaf(authority pki.Authority, commonName string) (openssl.Identity, error) {
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		return openssl.Identity{}, fmt.Errorf("making key of %s: %w", commonName, err)
	}
	leaf, err := authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: commonName}, Usages: []pki.Usage{pki.ClientAuth}, Validity: leafValidity, Now: time.Now(),
	})
	if err != nil {
		return openssl.Identity{}, fmt.Errorf("issuing certificate of %s: %w", commonName, err)
	}
	chain := append([]*x509.Certificate{leaf}, authority.Presents()...)
	return openssl.Identity{Chain: pki.EncodeBundle(chain...), Key: key.PEM()}, nil
}

// Answers are the verdicts on a leaf, by node.
type Answers map[string]verdict.Verdict

// All says whether every node gave one answer.
func (a Answers) All(answer verdict.Verdict) bool {
	return len(a) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(a)), func(v verdict.Verdict) bool { return v != answer })
}

// Any says whether some node gave an answer.
func (a Answers) Any(answer verdict.Verdict) bool {
	return slices.Contains(slices.Collect(maps.Values(a)), answer)
}

// Verified says what a client that trusts the authorities in PEM, and nothing else, makes
// of the certificate that each node presents to it now. A client that refuses a node for
// anything but its authority has learned nothing about that, which is an error.
func Verified(ctx context.Context, opened *target.Target, listener string, authorities []byte) (Answers, error) {
	on, err := opened.Listener(listener)
	if err != nil {
		return nil, err
	}
	trust, err := probe.Fixed(authorities)
	if err != nil {
		return nil, fmt.Errorf("reading what a client is to trust: %w", err)
	}
	identity, answers := probe.Identity{Listener: on, Trust: trust}, Answers{}
	for _, node := range opened.Network().Nodes() {
		if !on.On(node) {
			continue
		}
		connection, err := identity.Connect(ctx, opened.Network(), addressOf(node, on))
		kind, reason := verdict.Of(err)
		if kind == verdict.Refused && reason != verdict.UnknownAuthority {
			return nil, fmt.Errorf("asking %s who cross-signs it: %w", node.Name, err)
		}
		if err == nil {
			_ = connection.Close() // it has shown what it was opened for
		}
		answers[node.Name] = kind
	}
	return answers, nil
}

// Accepts asks every node, over TLS 1.2 and with a completed request, whether a
// listener accepts a leaf. The authorities are those that verify the nodes.
func (w Watchers) Accepts(ctx context.Context, listener string, leaf openssl.Identity, authorities ...*x509.Certificate) (Answers, error) {
	on, err := w.Target.Listener(listener)
	if err != nil {
		return nil, err
	}
	client, err := openssl.New(openssl.Options{
		Folder: w.Folder, Name: "asks-" + listener, Dial: w.Target.Network().Dial,
		Authorities: pki.EncodeBundle(authorities...), Identity: &leaf, Version: openssl.TLS12,
	})
	if err != nil {
		return nil, err
	}
	answers := Answers{}
	for _, node := range w.Target.Network().Nodes() {
		if !on.On(node) {
			continue
		}
		if answers[node.Name], err = answer(ctx, client, addressOf(node, on)); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// broken is how often a connection may break off before that is an answer: a server
// that refuses a client may close before the client has read why.
const broken = 3

// answer of one node. A refusal is the server's: a client that does not accept the
// server has learned nothing.
func answer(ctx context.Context, client *openssl.Client, address string) (verdict.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for range broken {
		err := client.Connect(ctx, address)
		kind, reason := verdict.Of(err)
		if kind == verdict.Refused && !reason.FromServer() {
			return kind, fmt.Errorf("asking %s whether it accepts a leaf: %w", address, err)
		}
		if kind != verdict.Interrupted || ctx.Err() != nil {
			return kind, nil
		}
	}
	return verdict.Refused, nil
}
