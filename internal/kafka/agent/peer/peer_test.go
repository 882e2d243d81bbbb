package peer

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	agentserver "github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	certificate = "entity-operator"
	host        = "my-cluster-entity-operator.kafka.svc"
)

// pod has the mounts of a peer.
type pod struct {
	*Peer

	t          *testing.T
	below      string
	old, next  pki.Authority
	published  publication.Publication
	identities map[string]stores.Identity
}

func newPod(t *testing.T) *pod {
	t.Helper()
	now := time.Now()
	p := &pod{
		t: t, below: t.TempDir(), old: agenttest.Authority(t, "cluster-ca v0", now), next: agenttest.Authority(t, "cluster-ca v1", now),
		published: publication.Publication{Revision: 1}, identities: map[string]stores.Identity{},
	}
	p.Peer = New(Options{
		Certificate: certificate, NodeDir: p.path("node"), TrustDir: p.path("trust"), PodDir: p.path("pod"),
		Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
	})
	return p
}

func (p *pod) path(volume string) string { return filepath.Join(p.below, volume) }

// pins is what the pod was created under.
func (p *pod) pins(revision int64) {
	pin := p.published
	pin.Revision = revision
	mounttest.WriteVolume(p.t, p.path("pod"), agenttest.Pod(p.t, pin))
}

// trusts is what the Secret of the CA holds.
func (p *pod) trusts(authorities ...pki.Authority) {
	mounttest.WriteVolume(p.t, p.path("trust"), agenttest.TrustDirectory(certificatesOf(authorities)...))
}

// publish gives the pod a leaf of an authority, and names the authorities that it is to trust.
func (p *pod) publish(revision int64, signer pki.Authority, loading publication.Loading, trusted ...pki.Authority) stores.Identity {
	identity := agenttest.Leaf(p.t, signer, "my-cluster-entity-user-operator", time.Now(), host)
	p.published = publication.Publication{
		Revision: revision, Loading: loading,
		Identities: map[string]string{publication.NodeIdentity: identity.Fingerprint()},
		Trust:      map[publication.Role][]string{publication.AgentRole: sorted(trusted)},
	}
	node := stores.Directory{}
	agenttest.PutIdentity(node, certificate, identity)
	agenttest.PutPublication(p.t, node, p.published)
	mounttest.WriteVolume(p.t, p.path("node"), node)
	return identity
}

func certificatesOf(authorities []pki.Authority) []*x509.Certificate {
	certificates := make([]*x509.Certificate, 0, len(authorities))
	for _, authority := range authorities {
		certificates = append(certificates, authority.Certificate())
	}
	return certificates
}

func sorted(authorities []pki.Authority) []string {
	return slices.Sorted(slices.Values(agenttest.Fingerprints(certificatesOf(authorities)...)))
}

// presents fails the test unless new connections use the identity and trust the authorities, and the report has both.
func (p *pod) presents(revision int64, identity stores.Identity, trusted ...pki.Authority) {
	p.t.Helper()
	credentials, err := p.Credentials(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	if !credentials.Identity.Leaf.Equal(identity.Chain[0]) {
		p.t.Errorf("a connection presents %s, want %s", credentials.Identity.Leaf.Subject, identity.Chain[0].Subject)
	}
	report := p.TLS()
	role := report.Roles[publication.AgentRole]
	if report.Revision != revision || role.Presents != identity.Fingerprint() || !slices.Equal(role.Trusts, sorted(trusted)) {
		p.t.Errorf("the report is of revision %d with %+v, want revision %d, leaf %s, trusting %v", report.Revision, role, revision, identity.Fingerprint(), sorted(trusted))
	}
	for _, fingerprint := range append(slices.Clone(role.Trusts), role.Presents) {
		if len(report.Certificates[fingerprint]) == 0 {
			p.t.Errorf("the report names %s and does not have it", fingerprint)
		}
	}
	if got := agenttest.Fingerprints(credentials.Anchors...); !slices.Equal(slices.Sorted(slices.Values(got)), sorted(trusted)) {
		p.t.Errorf("a connection trusts %v, want %v", got, sorted(trusted))
	}
}

func TestAPeerLoadsWhatIsPublished(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if _, err := p.Credentials(t.Context()); !errors.Is(err, errNotLoaded) {
		t.Errorf("before the first look the error is %v, want %v", err, errNotLoaded)
	}
	p.trusts(p.old)
	first := p.publish(1, p.old, "", p.old)
	p.pins(1)
	p.look()
	p.presents(1, first, p.old)
	if err := p.Ready(nil); err != nil {
		t.Errorf("it is not ready: %v", err)
	}

	second := p.publish(2, p.next, "", p.old, p.next)
	p.look()
	p.presents(1, first, p.old) // the next CA is named and not mounted yet
	if report := p.TLS(); report.Mounted != nil {
		t.Errorf("the report says that revision %d is mounted although a CA is missing", report.Mounted.Revision)
	}
	p.trusts(p.old, p.next)
	p.look()
	p.presents(2, second, p.old, p.next)

	third := p.publish(3, p.next, "", p.next)
	p.look()
	p.presents(3, third, p.next) // the old CA is still mounted, and not named any more
}

func TestAPeerStartsOnNothingOlderThanItsPin(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.trusts(p.old)
	p.publish(4, p.old, "", p.old)
	p.pins(5)
	p.look()
	if _, err := p.Credentials(t.Context()); err == nil {
		t.Error("it presents a certificate of an older publication than its pod pins")
	}
	if err := p.Ready(nil); err == nil {
		t.Error("it is ready although it has loaded nothing")
	}
	next := p.publish(6, p.old, "", p.old)
	p.look()
	p.presents(6, next, p.old)
}

func TestAPeerThatLoadsByARestartKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.trusts(p.old, p.next)
	first := p.publish(1, p.old, publication.LoadByRestart, p.old)
	p.pins(1)
	p.look()
	p.publish(2, p.next, publication.LoadByRestart, p.next)
	p.look()
	p.presents(1, first, p.old)
	if report := p.TLS(); report.Mounted == nil || report.Mounted.Revision != 2 {
		t.Errorf("the report says that %+v is mounted, want revision 2", report.Mounted)
	}
}

func TestOnlyTheClusterOperatorIsAnswered(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.trusts(p.old)
	leaf := p.publish(1, p.old, "", p.old)
	p.pins(1)
	p.look()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		as         stores.Identity
		isAnswered bool
	}{
		"the cluster operator":      {agenttest.Operator(t, p.old, time.Now()), true},
		"a node":                    {agenttest.Leaf(t, p.old, "my-cluster-kafka", time.Now(), "node-0"), false},
		"an operator of another CA": {agenttest.Operator(t, p.next, time.Now()), false},
	} {
		asking := client.New(client.Options{
			Dial: (&net.Dialer{}).DialContext, Now: time.Now, Timeout: 10 * time.Second,
			Credentials: func(context.Context) (mtls.Credentials, error) {
				return mtls.Credentials{Identity: agentserver.Certificate(c.as), Anchors: certificatesOf([]pki.Authority{p.old})}, nil
			},
		})
		report, err := asking.TLS(t.Context(), client.Node{Address: listener.Addr().String(), Name: host, Roles: 1})
		if isAnswered := err == nil; isAnswered != c.isAnswered {
			t.Errorf("%s is answered: %t (%v), want %t", name, isAnswered, err, c.isAnswered)
		}
		if err == nil && report.Roles[publication.AgentRole].Presents != leaf.Fingerprint() {
			t.Errorf("%s is answered with %+v", name, report)
		}
	}
}

// Two peers of one pod are pinned by annotations of their own.
func TestAPeerThatSharesItsPodStartsOnItsOwnPin(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.options.Process = agent.TopicOperator
	p.trusts(p.old)
	first := p.publish(1, p.old, "", p.old)
	p.pins(1)
	p.look()
	if _, err := p.Credentials(t.Context()); err == nil {
		t.Error("it starts on the pin of the other peer")
	}
	annotations := agenttest.Pod(t, p.published)
	for file, text := range annotations {
		annotations[file] = bytes.ReplaceAll(text, []byte(agent.PinAnnotation), []byte(agent.AnnotationOf(agent.TopicOperator, agent.PinAnnotation)))
	}
	mounttest.WriteVolume(t, p.path("pod"), annotations)
	p.look()
	p.presents(1, first, p.old)
}
