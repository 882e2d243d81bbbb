package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount"
	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	agentserver "github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// lookPause is how often mounts are looked at: a few readlinks.
const lookPause = 200 * time.Millisecond

// errNotLoaded says that no publication has been loaded yet.
var errNotLoaded = errors.New("no certificate has been loaded yet: wait until the cluster operator has written the Secret of this pod")

// Options are where a peer finds everything. Tests give it a world of its own.
type Options struct {
	// Certificate is the name of the files with the certificate and its key, without their endings.
	Certificate string
	// Process tells it from others that share its pod, empty for one without a name.
	Process string
	// NodeDir, TrustDir and PodDir are the mounted directories.
	NodeDir, TrustDir, PodDir string
	// Address is listened on for the cluster operator.
	Address string
	Clock   clock.Clock
	// Log receives what is loaded. It never sees key material.
	Log *slog.Logger
}

// Defaults are the options of a pod as package companion renders it. Clock and Log are the caller's to add.
func Defaults(certificate string) Options {
	return Options{
		Certificate: certificate,
		NodeDir:     agent.NodeDir, TrustDir: contract.ClusterTrustDir, PodDir: agent.PodDir,
		Address: ":" + strconv.Itoa(agent.SecurePort),
	}
}

// Peer is safe for concurrent use.
type Peer struct {
	options Options
	reader  *mount.Reader
	started time.Time

	mu         sync.Mutex
	generation uint64
	// loaded is what new connections use; its revision is 0 before the first publication.
	loaded stores.Peer
	// mounted is what the mounts mean now, nil while they do not belong together.
	mounted *stores.Peer
	waiting error
}

// New returns a peer that has loaded nothing.
func New(options Options) *Peer {
	return &Peer{
		options: options, reader: mount.NewReader(options.NodeDir, options.TrustDir, options.PodDir), started: options.Clock.Now(),
		waiting: errNotLoaded,
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that does not act presents a certificate, too.
func (*Peer) NeedLeaderElection() bool { return false }

// Start loads what is published, and answers the cluster operator, until the context ends.
func (p *Peer) Start(ctx context.Context) error {
	listener, err := server.Listen(ctx, p.options.Address)
	if err != nil {
		return err
	}
	return p.serve(ctx, listener)
}

func (p *Peer) serve(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	server.Serve(ctx, group, tls.NewListener(listener, server.TLSConfig(p.facing, p.options.Clock.Now)),
		server.OperatorHandler(p, agentserver.IsOperator, nil), p.options.Log)
	group.Go(func() error {
		p.follow(ctx)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("answering the cluster operator: %w", err)
	}
	return nil
}

func (p *Peer) follow(ctx context.Context) {
	for {
		p.look()
		select {
		case <-ctx.Done():
			return
		case <-p.options.Clock.After(lookPause):
		}
	}
}

// look reads the mounts, and loads what they hold if it belongs together and is newer. What is to be loaded by a
// restart alone stays mounted.
func (p *Peer) look() {
	directories, generation, err := p.reader.Read()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || generation == p.generation {
		return
	}
	p.generation = generation
	matched, err := stores.MatchPeer(stores.Mounted{
		Node: directories[0], ClusterTrust: directories[1], Pod: directories[2], Process: p.options.Process,
	}, p.options.Certificate)
	if err != nil {
		p.mounted, p.waiting = nil, err
		return
	}
	p.mounted, p.waiting = &matched, nil
	first := p.loaded.Publication.Revision == 0
	if matched.Publication.Revision <= p.loaded.Publication.Revision || !first && matched.Publication.Loading == publication.LoadByRestart {
		return
	}
	p.loaded = matched
	p.options.Log.Info("Loaded what is published", "revision", matched.Publication.Revision)
}

// present is what new connections use.
func (p *Peer) present() (stores.Peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded.Publication.Revision == 0 {
		return stores.Peer{}, p.waiting
	}
	return p.loaded, nil
}

// Credentials are what a new connection to a node presents and trusts.
func (p *Peer) Credentials(context.Context) (mtls.Credentials, error) {
	loaded, err := p.present()
	if err != nil {
		return mtls.Credentials{}, err
	}
	return mtls.Credentials{Identity: agentserver.Certificate(loaded.Identity), Anchors: loaded.Trusts}, nil
}

// Ready is nil once something has been loaded.
func (p *Peer) Ready(*http.Request) error {
	_, err := p.present()
	return err
}

// Readiness implements server.Source.
func (p *Peer) Readiness() agent.Readiness {
	if _, err := p.present(); err != nil {
		return agent.Readiness{Reason: agent.ReasonStarting, WaitingFor: []string{err.Error()}}
	}
	return agent.Readiness{Ready: true}
}

func (p *Peer) facing() (server.Facing, error) {
	loaded, err := p.present()
	if err != nil {
		return server.Facing{}, err
	}
	return server.Facing{
		Identity: agentserver.Certificate(loaded.Identity), Trusts: loaded.Trusts, Operators: loaded.Publication.Operators,
	}, nil
}

// TLS implements server.Source: what is loaded, and what is mounted.
func (p *Peer) TLS() publication.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	revision := p.loaded.Publication.Revision
	report := publication.Report{
		Revision: revision, StartedAt: p.started, Reload: publication.ReloadReport{Revision: revision},
		Roles:        map[publication.Role]publication.RoleReport{},
		Certificates: map[string][]byte{},
	}
	if revision > 0 {
		report.Roles[publication.AgentRole] = publication.RoleReportOf(p.loaded.Identity.Chain, p.loaded.Trusts)
		remember(report.Certificates, p.loaded)
	}
	if p.mounted != nil {
		report.Mounted = &p.mounted.Publication
		remember(report.Certificates, *p.mounted)
	}
	return report.Fit([]publication.Role{publication.AgentRole})
}

func remember(certificates map[string][]byte, of stores.Peer) {
	for _, certificate := range slices.Concat(of.Identity.Chain, of.Trusts) {
		certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
	}
}
