package scenarios

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// etcdBackedUp copies a cluster to a volume and restores it into one etcd, which has every key with its revisions. The
// certificate of the backup is accepted by its own cluster, and refused by the neighbour.
func etcdBackedUp(s *stage) {
	s.fromScratch()
	s.operatorForEtcd()
	own := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	neighbour := harness.Etcd{Kube: s.kube, Namespace: own.Namespace, Name: "neighbour"}
	search := own.KeySearch()
	s.step("two clusters created", func() error {
		if err := errors.Join(own.Create(s.ctx, 3), neighbour.Create(s.ctx, 1)); err != nil {
			return err
		}
		for _, etcd := range []harness.Etcd{own, neighbour} {
			if err := etcd.UntilReady(s.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	member := own.Name + "-0"
	s.step("keys written", func() error { return as(s.ctx, own, member, load) })
	before := everyKey{}
	s.must(as(s.ctx, own, member, before.read))

	var backup *etcdv1beta2.EtcdBackup
	begun := time.Now()
	s.step("backed up", func() (err error) {
		backup, err = own.BackUp(s.ctx, "once")
		return err
	})
	s.took(begun, "backup verified", "from the creation of the EtcdBackup until it is Ready")
	if backup.Status.EtcdRevision != before.revision {
		s.Errorf("the backup has revision %d, and the cluster %d", backup.Status.EtcdRevision, before.revision)
	}
	s.isTheFile(own, backup, search)
	s.step("its certificate tried", func() error { return s.onlyOwnAccepts(own, neighbour) })
	s.keysStayPut(search)

	restored := everyKey{}
	s.step("restored with etcdutl", func() error {
		connected, err := own.Restore(s.ctx, backup)
		if err != nil {
			return err
		}
		defer func() { _ = connected.Close() }()
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		return restored.read(ctx, connected)
	})
	if diff := cmp.Diff(before.keys, restored.keys); diff != "" || restored.revision != before.revision {
		s.Errorf("restored is revision %d, written were %d and keys (-written +restored):\n%s", restored.revision, before.revision, diff)
	}
	s.figure(report.AtLeast("keys restored and compared", float64(len(restored.keys)), 500, "keys", "each with its value, its revisions and its version"))
	s.step("EtcdBackup deleted", func() error { return s.kube.Delete(s.ctx, backup) })
	s.isTheFile(own, backup, search)
	for _, etcd := range []harness.Etcd{own, neighbour} {
		s.step(etcd.Name+" deleted", func() error { return etcd.Delete(s.ctx) })
	}
	s.keysStayPut(search)
}

// load writes keys, changes some, and deletes others.
func load(ctx context.Context, client *clientv3.Client) error {
	const keys, others = 600, 7
	for i := range keys {
		key := fmt.Sprintf("load/%04d", i)
		if _, err := client.Put(ctx, key, fmt.Sprintf("value of %d", i)); err != nil {
			return err
		}
		if i%others == 0 {
			if _, err := client.Put(ctx, key, "changed"); err != nil {
				return err
			}
		}
		if i%others == 1 {
			if _, err := client.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyKey is all that a client can read.
type everyKey struct {
	keys     map[string]stored
	revision int64
}

// stored is a key as etcd has it.
type stored struct {
	Value                    string
	Created, Changed, Number int64
	Lease                    int64
}

func (e *everyKey) read(ctx context.Context, client *clientv3.Client) error {
	response, err := client.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	e.keys, e.revision = map[string]stored{}, response.Header.GetRevision()
	for _, pair := range response.Kvs {
		e.keys[string(pair.Key)] = stored{string(pair.Value), pair.CreateRevision, pair.ModRevision, pair.Version, pair.Lease}
	}
	return nil
}

// isTheFile holds that the file on the volume is the one that the status describes, and has no private key.
func (s *stage) isTheFile(etcd harness.Etcd, backup *etcdv1beta2.EtcdBackup, search *harness.KeySearch) {
	s.Helper()
	data, err := etcd.BackupFile(s.ctx, backup)
	s.must(err)
	if data == nil {
		return // it is on a machine that is not this one
	}
	hash := sha256.Sum256(data)
	if got := hex.EncodeToString(hash[:]); got != backup.Status.SHA256 || int64(len(data)) != backup.Status.Size {
		s.Errorf("the file has %d bytes and hash %s, and the status %d and %s", len(data), got, backup.Status.Size, backup.Status.SHA256)
	}
	search.Look("backup "+etcd.Namespace+"/"+backup.Name, data)
}

// onlyOwnAccepts holds that the certificate which backups have lets a client into its own cluster, and into no other.
func (s *stage) onlyOwnAccepts(own, neighbour harness.Etcd) error {
	ca, err := own.CA(s.ctx, contract.ClientPlane)
	if err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		return err
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: own.Name + "-backup"}, Usages: []pki.Usage{pki.ClientAuth}, Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		return err
	}
	presented := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}
	for etcd, want := range map[harness.Etcd]bool{own: true, neighbour: false} {
		config, err := etcd.Operator(s.ctx)
		if err != nil {
			return err
		}
		config.Certificates = nil
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &presented, nil }
		accepts, err := etcd.Accepts(s.ctx, etcd.Name+"-0", contract.ClientPlane, config)
		if err != nil {
			return err
		}
		if accepts != want {
			s.Errorf("%s accepts the certificate of a backup of %s: %t", etcd.Name, own.Name, accepts)
		}
	}
	return nil
}
