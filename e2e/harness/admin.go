package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/target"
)

// Admin changes topics of a cluster, as somebody who may do everything.
type Admin struct {
	*kadm.Client

	cancel context.CancelFunc
}

// Admin connects with the identity of the cluster's operator.
func (k Kafka) Admin(ctx context.Context) (*Admin, error) {
	live, cancel := context.WithCancel(ctx)
	client, err := k.admin(live)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("administrating Kafka %s: %w", k.Name, err)
	}
	return &Admin{Client: kadm.NewClient(client), cancel: cancel}, nil
}

func (k Kafka) admin(ctx context.Context) (*kgo.Client, error) {
	opened, err := k.Target(ctx)
	if err != nil {
		return nil, err
	}
	operator, err := opened.Operator()
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(
		kgo.SeedBrokers(operator.Listener.Bootstrap),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			return operator.Connect(ctx, opened.Network(), address)
		}))
}

// Close ends all connections.
func (a *Admin) Close() {
	a.Client.Close()
	a.cancel()
}

// CreateTopicOf makes a topic with copies on so many brokers.
func (a *Admin) CreateTopicOf(ctx context.Context, name string, partitions, copies, inSync int) error {
	least := strconv.Itoa(inSync)
	_, err := a.CreateTopic(ctx, int32(partitions), int16(copies), map[string]*string{"min.insync.replicas": &least}, name)
	if err != nil {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	return nil
}

// pollInterval is how often Kafka is asked for what it does not tell by itself.
const pollInterval = 500 * time.Millisecond

// MoveAway moves every copy that a broker has to others, or drops it where all
// others have one already, and waits until Kafka has done it.
func (a *Admin) MoveAway(ctx context.Context, broker int32, others []int32) error {
	metadata, err := a.Metadata(ctx)
	if err != nil {
		return fmt.Errorf("listing partitions: %w", err)
	}
	assignments := kadm.AlterPartitionAssignmentsReq{}
	metadata.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if slices.Contains(p.Replicas, broker) {
			assignments.Assign(p.Topic, p.Partition, without(p.Replicas, broker, others))
		}
	})
	responses, err := a.AlterPartitionAssignments(ctx, assignments)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		return fmt.Errorf("moving partitions away from broker %d: %w", broker, err)
	}
	return Poll(ctx, func() (bool, error) {
		moving, err := a.ListPartitionReassignments(ctx, nil)
		if err != nil {
			return false, fmt.Errorf("listing partitions that are moved: %w", err)
		}
		return len(moving) == 0, nil
	})
}

// without puts a broker in the place of the one that is left.
func without(replicas []int32, broker int32, others []int32) []int32 {
	kept := slices.DeleteFunc(slices.Clone(replicas), func(r int32) bool { return r == broker })
	for _, other := range others {
		if len(kept) < len(replicas) && !slices.Contains(kept, other) {
			kept = append(kept, other)
		}
	}
	return kept
}

// Poll asks until it is done.
func Poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		finished, err := done()
		if finished || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Credentials are how the operator proves itself to the cluster, and recognises it.
func (k Kafka) Credentials(ctx context.Context) (mtls.Credentials, error) {
	own, authorities := &corev1.Secret{}, &corev1.Secret{}
	if err := errors.Join(
		k.Kube.Get(ctx, k.Key(k.Name+"-cluster-operator-certs"), own),
		k.Kube.Get(ctx, k.Key(k.Name+"-cluster-ca-cert"), authorities),
	); err != nil {
		return mtls.Credentials{}, fmt.Errorf("reading the operator's identity in Kafka %s: %w", k.Name, err)
	}
	identity, err := tls.X509KeyPair(own.Data["cluster-operator.crt"], own.Data["cluster-operator.key"])
	if err != nil {
		return mtls.Credentials{}, fmt.Errorf("reading the operator's identity in Kafka %s: %w", k.Name, err)
	}
	var anchors []*x509.Certificate
	for _, text := range probe.All(authorities.Data) {
		parsed, err := pki.ParseBundle(text)
		if err != nil {
			return mtls.Credentials{}, fmt.Errorf("reading the cluster CA of Kafka %s: %w", k.Name, err)
		}
		anchors = append(anchors, parsed...)
	}
	return mtls.Credentials{Identity: identity, Anchors: anchors}, nil
}

// adminTimeout bounds what is asked of a cluster.
const adminTimeout = 10 * time.Second

// OperatorClient is a client like the operator's own.
func (k Kafka) OperatorClient(opened *target.Target) (*admin.Kafka, error) {
	options := admin.Options{
		Dial: opened.Network().Dial, Credentials: k.Credentials, Now: time.Now,
		Timeout: adminTimeout, DialTimeout: adminTimeout,
	}
	for _, node := range opened.Network().Nodes() {
		if node.Broker {
			options.Brokers = append(options.Brokers, net.JoinHostPort(node.Host, "9091"))
		}
		if node.Controller {
			options.Controllers = append(options.Controllers, net.JoinHostPort(node.Host, "9090"))
		}
	}
	client, err := admin.Open(options)
	if err != nil {
		return nil, fmt.Errorf("opening a client of Kafka %s: %w", k.Name, err)
	}
	return client, nil
}
