package agent

import (
	"context"
	"crypto/tls"
	"errors"

	"golang.org/x/sync/errgroup"

	agentserver "github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/metrics"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
)

// listen starts to answer the operator and the kubelet; the group ends with the
// context.
func (a *firstProcess) listen(ctx context.Context, group *errgroup.Group) error {
	secure, err := agentserver.Listen(ctx, a.SecureAddress)
	if err != nil {
		return err
	}
	plain, err := agentserver.Listen(ctx, a.ProbeAddress)
	if err != nil {
		return errors.Join(err, secure.Close())
	}
	secure = tls.NewListener(secure, server.TLSConfig(a.observer.Facing, a.Clock.Now))
	agentserver.Serve(ctx, group, secure, server.OperatorHandler(a.observer, metrics.Handler(a.observer, a.config)), a.Log)
	agentserver.Serve(ctx, group, plain, agentserver.ProbeHandler(a.observer), a.Log)
	return nil
}

// config returns the agent's configuration as it is mounted now, its zero value
// if it cannot be read.
func (a *firstProcess) config() contract.Config {
	mounted, _, err := a.observer.reader.Read()
	if err != nil {
		return contract.Config{}
	}
	config, err := contract.ParseConfig(mounted.Config[contract.AgentConfigKey])
	if err != nil {
		return contract.Config{}
	}
	return config
}
