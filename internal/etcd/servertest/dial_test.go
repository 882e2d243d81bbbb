package servertest

import (
	"context"
	"crypto/tls"
	"strings"

	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// dial connects the operator to a member, which all have one address here, by the port of the one that it names.
func (w *world) dial(ctx context.Context, _ []string, identity *tls.Config) (admin.Client, error) {
	name, _, _ := strings.Cut(identity.ServerName, ".")
	url := "https://" + w.member(name).ports[contract.ClientPlane]
	connected, err := admin.New(ctx, []string{url}, identity)
	return translated{connected, w, url}, err
}

// agents are clients of agents that reach them by their ports on this machine.
func (w *world) agents(connect func(mtls.Credentials) controller.AgentClient) func(mtls.Credentials) controller.AgentClient {
	return func(credentials mtls.Credentials) controller.AgentClient {
		return translatedAgents{connect(credentials), w}
	}
}

type translatedAgents struct {
	controller.AgentClient

	world *world
}

func (a translatedAgents) TLS(ctx context.Context, node agentclient.Node) (publication.Report, error) {
	name, _, _ := strings.Cut(node.Name, ".")
	node.Address = a.world.member(name).secure
	return a.AgentClient.TLS(ctx, node)
}

// translate returns a URL as it is on this machine, or the other way round.
func (w *world) translate(url string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, m := range w.members {
		for public, local := range map[string]string{
			w.names.PeerURL(name): "https://" + m.ports[contract.PeerPlane], w.names.ClientURL(name): "https://" + m.ports[contract.ClientPlane],
		} {
			switch url {
			case public:
				return local
			case local:
				return public
			}
		}
	}
	return url
}

// translated is a client that speaks of members by the URLs that the operator knows.
type translated struct {
	admin.Client

	world *world
	url   string
}

func (c translated) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := c.Client.Members(ctx)
	for i := range members {
		for j, url := range members[i].PeerURLs {
			members[i].PeerURLs[j] = c.world.translate(url)
		}
	}
	return members, err
}

func (c translated) AddLearner(ctx context.Context, peerURL string) error {
	for ordinal := range model.MaxMembers {
		if name := c.world.names.Member(ordinal); c.world.names.PeerURL(name) == peerURL {
			c.world.member(name)
		}
	}
	return c.Client.AddLearner(ctx, c.world.translate(peerURL))
}

func (c translated) Status(ctx context.Context, _ string) (admin.Status, error) {
	return c.Client.Status(ctx, c.url)
}

func (c translated) MoveLeader(ctx context.Context, _ string, id uint64) error {
	return c.Client.MoveLeader(ctx, c.url, id)
}
