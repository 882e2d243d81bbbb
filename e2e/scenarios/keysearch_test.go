package scenarios

import (
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/report"
)

// keysStayPut holds that no object, log or snapshot has a private key, except where the
// operator keeps those of CAs and its own.
func (s *stage) keysStayPut(search *harness.KeySearch) {
	s.Helper()
	before := search.Looked()
	s.step("private keys searched", func() error { return search.Everything(s.ctx) })
	for _, problem := range search.Problems() {
		s.Error(problem)
	}
	s.figure(report.AtLeast("texts searched for private keys", float64(search.Looked()-before), 100, "texts", "in all objects of the Kubernetes cluster, logs and snapshots"))
	s.figure(report.AtLeast("keys with certificates", float64(search.Certificates()), 7, "keys", "four of CAs, one of the operator, and two of each member"))
}

// plantedKeyIsFound holds that the search fails when a key is where none may be.
func (s *stage) plantedKeyIsFound(etcd harness.Etcd) {
	s.Helper()
	ca, err := etcd.CA(s.ctx, contract.ClientPlane)
	s.must(err)
	planted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: "planted"},
		Data:       map[string]string{"key": base64.StdEncoding.EncodeToString(ca.Key().PEM())},
	}
	s.must(s.kube.Create(s.ctx, planted))
	search := etcd.KeySearch()
	s.step("planted key searched", func() error { return search.Everything(s.ctx) })
	want := "ConfigMap " + etcd.Namespace + "/planted.data.key has the private key of "
	if problems := search.Problems(); len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
		s.Errorf("the search finds %v, to be found is one that begins with %q", problems, want)
	}
	s.must(s.kube.Delete(s.ctx, planted))
}
