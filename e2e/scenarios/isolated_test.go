package scenarios

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// etcdIsolated has a cluster beside a neighbour and a cluster of its own name in another
// namespace. It accepts what its own CAs have signed for a port, and nothing else.
func etcdIsolated(s *stage) {
	s.fromScratch()
	s.operatorForEtcd()
	own := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	neighbour := harness.Etcd{Kube: s.kube, Namespace: own.Namespace, Name: "neighbour"}
	namesake := harness.Etcd{Kube: s.kube, Namespace: own.Namespace + "-namesake", Name: clusterName}
	s.forgetAtTheEnd(namesake.Namespace)
	s.must(s.kube.CreateNamespace(s.ctx, namesake.Namespace))
	clusters := []harness.Etcd{own, neighbour, namesake}
	s.step("three clusters created", func() error {
		for _, etcd := range clusters {
			if err := etcd.Create(s.ctx, 1); err != nil {
				return err
			}
		}
		for _, etcd := range clusters {
			if err := etcd.UntilReady(s.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	member := own.Name + "-0"
	tried := 0
	for _, plane := range contract.Planes() {
		s.step("certificates tried on the "+string(plane)+" port", func() error {
			credentials, err := credentialsFor(s.ctx, own, plane, neighbour, namesake)
			if err != nil {
				return err
			}
			for _, c := range credentials {
				config, err := c.config(s.ctx, own, plane)
				if err != nil {
					return err
				}
				accepts, err := own.Accepts(s.ctx, member, plane, config)
				if err != nil {
					return err
				}
				if accepts != c.accepts {
					s.Errorf("the %s port accepts %s: %t", plane, c.of, accepts)
				}
				tried++
			}
			accepts, err := own.AcceptsPlaintext(s.ctx, member, plane)
			if accepts {
				s.Errorf("the %s port serves without TLS", plane)
			}
			return err
		})
	}
	s.figure(report.AtLeast("credentials tried", float64(tried), 50, "credentials", "on both ports, foreign ones with each length of their chain"))
	for _, other := range clusters[1:] {
		s.step("the server of "+other.Namespace+"/"+other.Name+" refused", func() error {
			config, err := own.Operator(s.ctx)
			if err != nil {
				return err
			}
			_, err = other.Accepts(s.ctx, other.Name+"-0", contract.ClientPlane, config)
			if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
				s.Errorf("a client of %s connects to it: %v", own.Name, err)
			}
			return nil
		})
	}
	for _, etcd := range clusters {
		s.step(etcd.Namespace+"/"+etcd.Name+" deleted", func() error { return etcd.Delete(s.ctx) })
	}
}

// forgetAtTheEnd removes a namespace with its clusters, as an earlier run may have left it
// and when the scenario has ended.
func (s *stage) forgetAtTheEnd(namespace string) {
	s.Helper()
	forget := func(ctx context.Context) error {
		return errors.Join(s.kube.ForgetEtcdClusters(ctx, namespace), s.kube.DeleteNamespace(ctx, namespace))
	}
	s.must(forget(s.ctx))
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 2*time.Minute)
		defer cancel()
		if err := forget(ctx); err != nil {
			s.Error(err)
		}
	})
}

// credential is what a client presents to a member.
type credential struct {
	of      string
	chain   *tls.Certificate
	accepts bool
}

// config is that of a client which trusts the servers of the cluster.
func (c credential) config(ctx context.Context, own harness.Etcd, plane contract.Plane) (*tls.Config, error) {
	ca, err := own.CA(ctx, plane)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate())
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if c.chain != nil {
		// A client would leave out what the server does not name as a CA that it accepts.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.chain, nil }
	}
	return config, nil
}

// credentialsFor are those that a plane of a cluster is tried with: one that it accepts, and all others.
func credentialsFor(ctx context.Context, own harness.Etcd, plane contract.Plane, others ...harness.Etcd) ([]credential, error) {
	right, err := own.CA(ctx, plane)
	if err != nil {
		return nil, err
	}
	above, err := own.OperatorCA(ctx, plane)
	if err != nil {
		return nil, err
	}
	credentials := []credential{{of: "no certificate"}}
	add := func(of string, ca pki.Authority, usage pki.Usage, accepts bool) error {
		for _, presented := range [][]pki.Authority{nil, {ca}, {ca, above}} {
			chain, err := leafOf(ca, usage, presented...)
			if err != nil {
				return err
			}
			credentials = append(credentials, credential{of, &chain, accepts})
		}
		return nil
	}
	errs := []error{
		add("a client of its own CA", right, pki.ClientAuth, true),
		add("a server of its own CA", right, pki.ServerAuth, false),
		add("a client of the operator's CA", above, pki.ClientAuth, false),
	}
	for _, etcd := range append(others, own) {
		for _, other := range contract.Planes() {
			if etcd == own && other == plane {
				continue
			}
			ca, err := etcd.CA(ctx, other)
			if err != nil {
				return nil, err
			}
			errs = append(errs, add("a client of the "+string(other)+" CA of "+etcd.Namespace+"/"+etcd.Name, ca, pki.ClientAuth, false))
		}
	}
	return credentials, errors.Join(errs...)
}
