package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
	"github.com/keyturn/keyturn/internal/probe/members"
	"github.com/keyturn/keyturn/internal/probe/observe"
)

// EtcdLoad is clients of an etcd cluster at work. They follow the members that vote.
type EtcdLoad struct {
	*etcdload.Load

	etcd     Etcd
	voters   *members.Members
	observer *observe.Observer
	cancel   context.CancelFunc
}

// Load starts writers, readers and fresh connections, which present a certificate of the
// cluster's client CA that outlives any scenario.
func (e Etcd) Load(ctx context.Context) (*EtcdLoad, error) {
	config, err := e.client(ctx, contract.ClientPlane)
	if err != nil {
		return nil, err
	}
	return e.LoadAs(ctx, config)
}

// LoadAs starts writers, readers and fresh connections that connect as the configuration says.
func (e Etcd) LoadAs(ctx context.Context, config *tls.Config) (*EtcdLoad, error) {
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	load := &EtcdLoad{etcd: e, cancel: cancel}
	if err := load.start(live, config); err != nil {
		cancel()
		return nil, fmt.Errorf("starting clients of EtcdCluster %s: %w", e.Name, err)
	}
	return load, nil
}

func (l *EtcdLoad) start(live context.Context, config *tls.Config) error {
	err := comeFirst()
	if err != nil {
		return err
	}
	if l.voters, err = members.Follow(live, l.etcd.Kube.Plain, l.etcd.Kube.Config, l.etcd.names()); err != nil {
		return err
	}
	options := etcdload.Defaults(clock.RealClock{})
	options.Endpoints, options.Dial, options.TLS = l.voters.Endpoints(), l.voters.Dial, config
	options.Prefix = "load/" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	if l.Load, err = etcdload.Start(live, options); err != nil {
		return err
	}
	l.observer = l.voters.Observe(live, options.Clock, l.etcd.Kube)
	return l.voters.OnChange(l.SetEndpoints)
}

// Finish ends the clients and gives their account, and what was seen of the members.
func (l *EtcdLoad) Finish(ctx context.Context) (etcdload.Result, []observe.Log) {
	defer l.cancel()
	return l.Load.Finish(context.WithoutCancel(ctx)), l.observer.Logs()
}

// client is a client with a certificate of the CA of a plane, which trusts that CA alone.
func (e Etcd) client(ctx context.Context, plane contract.Plane) (*tls.Config, error) {
	ca, err := e.CA(ctx, plane)
	if err != nil {
		return nil, err
	}
	identity, err := Leaf(ca, "load")
	if err != nil {
		return nil, err
	}
	config, err := trusting(pki.EncodeBundle(ca.Certificate()))
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(identity.Chain, identity.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of clients: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return config, nil
}

// voters selects the pods of members that vote.
func (e Etcd) voters() []client.ListOption {
	return selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name, model.RoleLabel: string(etcdv1beta2.RoleVoter)})
}
