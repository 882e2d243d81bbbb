package scenarios

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

// etcdSignedOutside has the operator's CAs signed by a root outside of Kubernetes, one answer given in each of the two
// ways. The cluster waits for both, and openssl then verifies its certificates up to that root.
func etcdSignedOutside(s *stage) {
	s.fromScratch()
	s.operatorForEtcd()
	s.must(s.kube.ForgetOutsidePKI(s.ctx))
	s.Cleanup(func() {
		if err := s.kube.ForgetOutsidePKI(context.WithoutCancel(s.ctx)); err != nil {
			s.Error(err)
		}
	})
	company, err := harness.NewOutsidePKI(s.ctx, s.TempDir())
	s.must(err)
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	s.step("both requests published", func() error {
		if err := s.kube.CreateEtcdPKI(s.ctx); err != nil {
			return err
		}
		_, err := s.kube.UntilEtcdPKI(s.ctx, model.WaitingForSigner)
		return err
	})
	s.step("a cluster waits", func() error {
		if err := etcd.Create(s.ctx, 1); err != nil {
			return err
		}
		return etcd.UntilWaitingForSigner(s.ctx)
	})
	s.waitsQuietly(etcd)
	s.step("an answer with path length 0 refused", func() error { return answer(s.ctx, s.kube, company, 0, model.PathLengthTooShort) })
	s.step("a good answer used", func() error { return answer(s.ctx, s.kube, company, 1, model.WaitingForSigner) })
	begun := time.Now()
	s.step("the other request answered as a CertificateSigningRequest", func() error {
		request, err := s.kube.SigningRequest(s.ctx, contract.ClientPlane)
		if err != nil {
			return err
		}
		signed, err := company.Sign(s.ctx, request.Spec.Request, 1)
		if err != nil {
			return err
		}
		if err := s.kube.AnswerSigningRequest(s.ctx, request, signed); err != nil {
			return err
		}
		return etcd.UntilReady(s.ctx)
	})
	s.took(begun, "signed until ready", "from the last answer until the EtcdCluster is Ready")
	members := s.allVote(etcd, 1)
	s.step("it serves", func() error { return serve(s.ctx, etcd, members) })
	s.step("openssl verifies up to the outside root", func() error { return s.verifiedByOpenSSL(etcd, company, members[0]) })
	s.keysStayPut(etcd.KeySearch())
	s.step("deleted", func() error { return etcd.Delete(s.ctx) })
}

// answer signs the request in the EtcdPKI for peers with a path length, and waits for what that leads to.
func answer(ctx context.Context, kube *harness.Kubernetes, company harness.OutsidePKI, pathLength int, reason model.Reason) error {
	found, err := kube.EtcdPKI(ctx)
	if err != nil {
		return err
	}
	signed, err := company.Sign(ctx, []byte(found.Status.Requests.Peer), pathLength)
	if err != nil {
		return err
	}
	if err := kube.AnswerEtcdPKI(ctx, contract.PeerPlane, signed); err != nil {
		return err
	}
	_, err = kube.UntilEtcdPKI(ctx, reason)
	return err
}

// waitsQuietly holds that nothing is created and nothing written while no one signs.
func (s *stage) waitsQuietly(etcd harness.Etcd) {
	s.Helper()
	const watched = 20 * time.Second
	versions := func() string {
		resource, err := etcd.Resource(s.ctx)
		s.must(err)
		outside, err := s.kube.EtcdPKI(s.ctx)
		s.must(err)
		return fmt.Sprint(resource.ResourceVersion, outside.ResourceVersion)
	}
	before := versions()
	s.step("it is watched", func() error {
		ctx, cancel := context.WithTimeout(s.ctx, watched)
		defer cancel()
		<-ctx.Done()
		return s.ctx.Err()
	})
	if after := versions(); before != after {
		s.Errorf("something is written while the cluster waits: %s, then %s", before, after)
	}
	var pods corev1.PodList
	s.must(s.kube.List(s.ctx, &pods, client.InNamespace(etcd.Namespace)))
	private, err := etcd.Private(s.ctx)
	s.must(err)
	if len(pods.Items) > 0 || len(private) > 0 {
		s.Errorf("while it waits, there are %d pods and the Secrets %v", len(pods.Items), private)
	}
	resource, err := etcd.Resource(s.ctx)
	s.must(err)
	if ready := meta.FindStatusCondition(resource.Status.Conditions, etcdv1beta2.ConditionReady); ready == nil || ready.Reason != string(model.WaitingForSigner) {
		s.Errorf("Ready is %+v", ready)
	}
}

// verifiedByOpenSSL holds that the certificates of a member verify strictly up to the root of the company.
func (s *stage) verifiedByOpenSSL(etcd harness.Etcd, company harness.OutsidePKI, member string) error {
	pod := &corev1.Pod{}
	if err := s.kube.Get(s.ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: member}, pod); err != nil {
		return err
	}
	verified := 0
	for _, plane := range contract.Planes() {
		chain, err := enroll.Chain(pod.Annotations[plane.CertificateAnnotation()])
		if err != nil {
			return err
		}
		ca, err := etcd.CA(s.ctx, plane)
		if err != nil {
			return err
		}
		above, err := etcd.OperatorCA(s.ctx, plane)
		if err != nil {
			return err
		}
		others := [][]byte{pki.EncodeBundle(ca.Certificate()), pki.EncodeBundle(above.Certificate())}
		if err := company.Verify(s.ctx, pki.EncodeBundle(chain[0]), others...); err != nil {
			return err
		}
		if err := company.Verify(s.ctx, pki.EncodeBundle(chain[0]), others[0]); err == nil {
			s.Errorf("openssl verifies the %s certificate without the operator's CA", plane)
		}
		verified++
	}
	s.figure(report.AtLeast("certificates verified by openssl", float64(verified), 2, "certificates", "leaf, CA of the cluster, operator's CA, outside root; -x509_strict"))
	return nil
}
