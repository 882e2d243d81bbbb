package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// EtcdPort is one port of a member.
type EtcdPort struct {
	Member string
	Plane  contract.Plane
}

// Served are the certificates that members present, each verified by a client of its port.
func (l *EtcdLoad) Served(ctx context.Context) (map[EtcdPort]*x509.Certificate, error) {
	served := map[EtcdPort]*x509.Certificate{}
	for _, plane := range contract.Planes() {
		config, err := l.etcd.client(ctx, plane)
		if err != nil {
			return nil, err
		}
		for _, member := range l.voters.Names() {
			port := EtcdPort{member, plane}
			if served[port], err = l.presented(ctx, port, config); err != nil {
				return nil, err
			}
		}
	}
	return served, nil
}

const (
	// handshakeLimit bounds one handshake with a member, and lookPause is between two looks.
	handshakeLimit = 10 * time.Second
	lookPause      = 5 * time.Second
)

// UntilServed waits until every port presents another certificate than before.
func (l *EtcdLoad) UntilServed(ctx context.Context, before map[EtcdPort]*x509.Certificate) (map[EtcdPort]*x509.Certificate, error) {
	for {
		served, err := l.Served(ctx)
		if err == nil && maps.EqualFunc(served, before, func(now, then *x509.Certificate) bool { return !now.Equal(then) }) {
			return served, nil
		}
		if ended := Let(ctx, lookPause); ended != nil {
			return nil, fmt.Errorf("waiting until all members present other certificates: %w", errors.Join(ended, err))
		}
	}
}

func (l *EtcdLoad) presented(ctx context.Context, port EtcdPort, config *tls.Config) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	number, _, _ := greeting(port.Plane)
	host := l.etcd.names().Host(port.Member)
	conn, err := l.voters.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(number)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	config = config.Clone()
	config.ServerName = host
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("connecting to the %s port of member %s: %w", port.Plane, port.Member, err)
	}
	return secure.ConnectionState().PeerCertificates[0], nil
}

// Containers are the present containers of a cluster's pods with the number of their restarts, by pod
// and container.
func (e Etcd) Containers(ctx context.Context) (map[string]string, error) {
	pods := &corev1.PodList{}
	if err := e.Kube.List(ctx, pods, selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name})...); err != nil {
		return nil, fmt.Errorf("listing the pods of EtcdCluster %s: %w", e.Name, err)
	}
	containers := map[string]string{}
	for i := range pods.Items {
		for _, status := range slices.Concat(pods.Items[i].Status.InitContainerStatuses, pods.Items[i].Status.ContainerStatuses) {
			containers[pods.Items[i].Name+"/"+status.Name] = fmt.Sprintf("%s, %d restarts", status.ContainerID, status.RestartCount)
		}
	}
	return containers, nil
}
