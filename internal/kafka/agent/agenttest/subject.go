package agenttest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
	"github.com/keyturn/keyturn/internal/mtls"
)

// closedPort is a port that no process listens on.
const closedPort = "1"

// Admin opens a client of the cluster that is closed with the test.
func (c *Cluster) Admin(tb testing.TB) *admin.Kafka {
	tb.Helper()
	return open(tb, c.AdminOptions())
}

func open(tb testing.TB, options admin.Options) *admin.Kafka {
	tb.Helper()
	opened, err := admin.Open(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(opened.Close)
	return opened
}

// Subject is the cluster as the suite of admin clients wants it.
func (c *Cluster) Subject(tb testing.TB) admintest.Subject {
	tb.Helper()
	nowhere := c.AdminOptions()
	nowhere.Brokers = []string{net.JoinHostPort(c.Nodes[0].Address, closedPort)}
	nowhere.Controllers = nowhere.Brokers
	subject := admintest.Subject{
		Client:      c.Admin(tb),
		ClusterID:   c.ID,
		CreateTopic: c.createTopic(tb),
		Unreachable: open(tb, nowhere),
	}
	for _, n := range c.Nodes {
		subject.Nodes = append(subject.Nodes, n.ID)
	}
	return subject
}

// UsersSubject is the cluster as the suite of clients of users wants it.
func (c *Cluster) UsersSubject(tb testing.TB) admintest.UsersSubject {
	tb.Helper()
	nowhere := c.AdminOptions()
	nowhere.Brokers = []string{net.JoinHostPort(c.Nodes[0].Address, closedPort)}
	return admintest.UsersSubject{Client: c.Admin(tb), Unreachable: open(tb, nowhere)}
}

// TopicsSubject is the cluster as the suite of clients of topics wants it.
func (c *Cluster) TopicsSubject(tb testing.TB) admintest.TopicsSubject {
	tb.Helper()
	nowhere := c.AdminOptions()
	nowhere.Brokers = []string{net.JoinHostPort(c.Nodes[0].Address, closedPort)}
	options := c.AdminOptions()
	options.AnswerLimit = admin.TopicsAnswer
	return admintest.TopicsSubject{Client: open(tb, options), Unreachable: open(tb, nowhere)}
}

// Outage is the cluster as the suite for stopped nodes wants it.
func (c *Cluster) Outage(tb testing.TB) admintest.Outage {
	tb.Helper()
	return admintest.Outage{
		Subject: c.Subject(tb),
		Stop: func(_ context.Context, id int32) error {
			// 143 is how a server ends that was asked to.
			tb.Logf("node %d: %v", id, c.Nodes[id].Stop())
			return nil
		},
		Start: func(_ context.Context, id int32) error {
			c.Nodes[id].Start(tb)
			c.AwaitReady(tb, c.Nodes[id])
			return nil
		},
	}
}

func (c *Cluster) createTopic(tb testing.TB) func(context.Context, string, int, int, int) error {
	tb.Helper()
	options := c.AdminOptions()
	dialer := mtls.Dialer{Dial: options.Dial, Source: options.Credentials, Now: options.Now, Timeout: options.DialTimeout}
	brokers, err := kgo.NewClient(
		kgo.SeedBrokers(options.Brokers...),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dialer.Connect(ctx, address, mtls.Peer{Name: host})
		}),
	)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(brokers.Close)
	topics := kadm.NewClient(brokers)
	return func(ctx context.Context, name string, partitions, replication, minInSync int) error {
		minimum := strconv.Itoa(minInSync)
		_, err := topics.CreateTopic(ctx, int32(partitions), int16(replication),
			map[string]*string{"min.insync.replicas": &minimum}, name)
		if err != nil {
			return fmt.Errorf("creating topic %s: %w", name, err)
		}
		return nil
	}
}
