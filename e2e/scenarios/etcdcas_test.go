package scenarios

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// mostForCAs is how long both CAs may take until nothing trusts the former ones.
const mostForCAs = 3 * time.Minute

// etcdCAsReplaced has both CAs replaced while applications are at work. Etcd of each version is started again in its pod.
func etcdCAsReplaced(s *stage) {
	s.fromScratch()
	s.operatorForEtcdWith(map[string]any{"enabled": true, "access": map[string]any{"enabled": true}})
	for _, version := range []string{"3.5.35", "3.6.16"} {
		s.replaceCAs(harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}, version)
	}
}

func (s *stage) replaceCAs(etcd harness.Etcd, version string) {
	s.Helper()
	s.step("three members of etcd "+version+" created", func() error {
		return errors.Join(etcd.Create(s.ctx, 3, harness.Version(version)), etcd.UntilReady(s.ctx))
	})
	members := s.allVote(etcd, 3)
	name := types.NamespacedName{Namespace: etcd.Namespace, Name: "load"}
	access := &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: etcd.Name, Namespace: etcd.Namespace}},
	}
	s.must(s.kube.Create(s.ctx, access))
	s.step("an application has credentials", func() error { return s.untilAccess(name, model.SecretReady) })
	before, err := etcd.CAs(s.ctx)
	s.must(err)
	containers, err := etcd.Containers(s.ctx)
	s.must(err)
	s.step("clients work", func() error {
		load, err := etcd.LoadAs(s.ctx, etcd.Application(s.ctx, name))
		s.etcdLoad = load
		return err
	})
	s.must(harness.Let(s.ctx, harness.Quiet))

	begun := time.Now()
	s.step("the application has a certificate of the new CA", func() error {
		if err := etcd.ReplaceCAs(s.ctx); err != nil {
			return err
		}
		return harness.Poll(s.ctx, func() (bool, error) {
			leaf, err := pki.FirstCertificate(s.secretOf(name).Data[corev1.TLSCertKey])
			return err == nil && !pki.IssuedBy(leaf, before[contract.ClientPlane].Certificate()), err
		})
	})
	s.must(harness.Let(s.ctx, time.Second)) // the time as an annotation has it is a second's
	s.step("the former CAs are trusted by nothing", func() error {
		return errors.Join(etcd.ClientsMoved(s.ctx), etcd.UntilTrustedAlone(s.ctx, before))
	})
	took := time.Since(begun)
	s.figure(report.AtMost("both CAs of etcd "+version+" replaced", took.Seconds(), mostForCAs.Seconds(), "s", "from the request until no member trusts the former ones"))
	result := s.witnessEtcd()
	s.figure(report.AtMost("refused connections", float64(len(result.Refusals)), 0, "connections", "that one side refused, of clients at work and fresh ones"))
	s.figure(report.AtMost("longest time without a write within bounds", result.Stall.Length.Seconds(), maxGap.Seconds(), "s", "between two acknowledgements of any writer"))
	now, err := etcd.Containers(s.ctx)
	s.must(err)
	if diff := cmp.Diff(containers, now); diff != "" {
		s.Errorf("containers were restarted (-before +after):\n%s", diff)
	}
	s.step("certificates of the former CAs are refused", func() error { return s.refuseFormer(etcd, members, before) })
	s.must(s.kube.Delete(s.ctx, access))
	s.step("deleted", func() error { return etcd.Delete(s.ctx) })
}

// refuseFormer holds that each member refuses certificates of the former CAs on both ports, and accepts those of the present ones.
func (s *stage) refuseFormer(etcd harness.Etcd, members []string, former map[contract.Plane]pki.Authority) error {
	present, err := etcd.CAs(s.ctx)
	if err != nil {
		return err
	}
	for _, member := range members {
		for _, plane := range contract.Planes() {
			for _, ca := range []struct {
				pki.Authority

				isPresent bool
			}{{former[plane], false}, {present[plane], true}} {
				certificate, err := clientOf(ca.Authority)
				if err != nil {
					return err
				}
				accepts, err := etcd.Accepts(s.ctx, member, plane, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
				if err != nil {
					return err
				}
				if accepts != ca.isPresent {
					s.Errorf("member %s accepts a certificate of CA %s in the %s plane: %t", member, ca.Certificate().Subject, plane, accepts)
				}
			}
		}
	}
	return nil
}
