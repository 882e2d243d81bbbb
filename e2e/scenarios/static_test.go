package scenarios

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// The Secrets of a cluster with static certificates, as the public operator's documentation calls them.
const (
	peerTLSSecret   = "etcd-peer-tls"
	serverTLSSecret = "etcd-server-tls"
)

// ownPKI is a PKI of the user, with a CA for each use.
type ownPKI struct {
	etcd                    harness.Etcd
	peers, servers, clients pki.Authority
	// others are those whose certificates peers accept besides.
	others []*x509.Certificate
}

func newOwnPKI(etcd harness.Etcd) (ownPKI, error) {
	own := ownPKI{etcd: etcd}
	for name, ca := range map[string]*pki.Authority{"peers": &own.peers, "servers": &own.servers, "clients": &own.clients} {
		var err error
		*ca, err = pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 24 * time.Hour, Now: time.Now()})
		if err != nil {
			return ownPKI{}, err
		}
	}
	return own, nil
}

// put writes all three Secrets, each with a new key.
func (o ownPKI) put(s *stage) error {
	members, service := o.etcd.Hosts()
	for _, secret := range []struct {
		name, prefix string
		by           pki.Authority
		trusts       []*x509.Certificate
		usages       []pki.Usage
		names        []string
	}{
		{peerTLSSecret, "peer", o.peers, append([]*x509.Certificate{o.peers.Certificate()}, o.others...), pki.BothUsages(), members},
		{serverTLSSecret, "server", o.servers, []*x509.Certificate{o.clients.Certificate()}, []pki.Usage{pki.ServerAuth}, append(slices.Clone(members), service, "localhost")},
		{harness.OperatorTLSSecret, "etcd-client", o.clients, []*x509.Certificate{o.servers.Certificate()}, []pki.Usage{pki.ClientAuth}, nil},
	} {
		key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
		if err != nil {
			return err
		}
		sans, err := pki.NewSANs(secret.names...)
		if err != nil {
			return err
		}
		leaf, err := secret.by.Issue(key.Signer().Public(), pki.LeafSpec{
			Subject: pki.Subject{CommonName: secret.prefix}, SANs: sans, Usages: secret.usages, Validity: time.Hour, Now: time.Now(),
		})
		if err != nil {
			return err
		}
		if err := o.etcd.Put(s.ctx, secret.name, map[string][]byte{
			secret.prefix + ".crt": pki.EncodeBundle(leaf), secret.prefix + ".key": key.PEM(), secret.prefix + "-ca.crt": pki.EncodeBundle(secret.trusts...),
		}); err != nil {
			return err
		}
	}
	return nil
}

// etcdStaticAndPlaintext has a cluster run with certificates of the user's own PKI, replaces them while it runs, and
// has another one run without TLS.
func etcdStaticAndPlaintext(s *stage) {
	s.fromScratch()
	s.operatorForEtcd()
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName, Mode: model.Static}
	own, err := newOwnPKI(etcd)
	s.must(err)
	s.step("three members created", func() error {
		if err := etcd.Create(s.ctx, 3, harness.TLS(map[string]any{"static": map[string]any{
			"member": map[string]any{"peerSecret": peerTLSSecret, "serverSecret": serverTLSSecret}, "operatorSecret": harness.OperatorTLSSecret,
		}})); err != nil {
			return err
		}
		return own.put(s)
	})
	begun := time.Now()
	s.step("three members ready", func() error { return etcd.UntilReady(s.ctx) })
	s.took(begun, "three members ready", "from the Secrets until the EtcdCluster is Ready; it includes loading images")
	members := s.allVote(etcd, 3)
	s.step("three members serve", func() error { return serve(s.ctx, etcd, members) })

	containers, err := etcd.Containers(s.ctx)
	s.must(err)
	old, err := etcd.Presented(s.ctx, members[0])
	s.must(err)
	begun = time.Now()
	s.step("other certificates are presented", func() error {
		if err := own.put(s); err != nil {
			return err
		}
		for _, member := range members {
			if err := harness.Poll(s.ctx, func() (bool, error) {
				now, err := etcd.Presented(s.ctx, member)
				if err != nil {
					return false, nil //nolint:nilerr // etcd reads certificate and key one after the other
				}
				return !now.Equal(old), nil
			}); err != nil {
				return fmt.Errorf("waiting for the certificate of member %s: %w", member, err)
			}
		}
		return nil
	})
	s.took(begun, "other certificates presented", "from the Secrets until the last member presents another certificate")
	s.step("three members serve with other certificates", func() error { return serve(s.ctx, etcd, members) })
	if now, err := etcd.Containers(s.ctx); err != nil || !maps.Equal(now, containers) {
		s.Errorf("members were restarted for another certificate: %v, before %v: %v", now, containers, err)
	}

	next, err := newOwnPKI(etcd)
	s.must(err)
	pods, err := etcd.Pods(s.ctx)
	s.must(err)
	own.others = append(own.others, next.peers.Certificate())
	begun = time.Now()
	s.step("another CA of peers is trusted", func() error {
		if err := own.put(s); err != nil {
			return err
		}
		if err := untilReplaced(s.ctx, etcd, pods); err != nil {
			return err
		}
		return etcd.UntilReady(s.ctx)
	})
	s.took(begun, "another CA of peers trusted", "from the Secret until three members have been restarted one after the other")
	own.peers = next.peers
	s.step("three members serve with certificates of another CA", func() error {
		if err := own.put(s); err != nil {
			return err
		}
		return serve(s.ctx, etcd, members)
	})

	plain := harness.Etcd{Kube: s.kube, Namespace: etcd.Namespace, Name: "plain", Mode: model.Insecure}
	s.step("one member without TLS created", func() error {
		if err := plain.Create(s.ctx, 1, harness.TLS(map[string]any{"insecure": true})); err != nil {
			return err
		}
		return plain.UntilReady(s.ctx)
	})
	s.step("one member without TLS serves", func() error { return serve(s.ctx, plain, s.allVote(plain, 1)) })
	resource, err := plain.Resource(s.ctx)
	s.must(err)
	if !meta.IsStatusConditionTrue(resource.Status.Conditions, etcdv1beta2.ConditionWarning) {
		s.Errorf("nothing warns of a cluster without TLS: %+v", resource.Status.Conditions)
	}
}

// untilReplaced waits until all members have other pods.
func untilReplaced(ctx context.Context, etcd harness.Etcd, before map[string]types.UID) error {
	return harness.Poll(ctx, func() (bool, error) {
		pods, err := etcd.Pods(ctx)
		if err != nil {
			return false, err
		}
		for name, uid := range pods {
			if before[name] == uid {
				return false, nil
			}
		}
		return len(pods) == len(before), nil
	})
}
