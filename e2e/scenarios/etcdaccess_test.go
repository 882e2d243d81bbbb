package scenarios

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// etcdApplicationConnects has applications of the cluster's namespace and of another one connect by the Secrets of
// their EtcdAccesses, one of them with a key of its own, until their certificates are renewed.
func etcdApplicationConnects(s *stage) {
	s.fromScratch()
	s.operatorForEtcdWith(map[string]any{"enabled": true, "access": map[string]any{"enabled": true}})
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	apps := s.namespaceOfApplications()
	s.step("one member created", func() error {
		return errors.Join(etcd.Create(s.ctx, 1, harness.LeafValidity(shortLife)), etcd.UntilReady(s.ctx))
	})
	near, far, own := types.NamespacedName{Namespace: etcd.Namespace, Name: "near"}, apps.Key("far"), apps.Key("own-key")
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	s.must(err)
	request, err := pki.NewRequest(key, pki.Subject{CommonName: "root"}, pki.SANs{})
	s.must(err)
	for name, request := range map[types.NamespacedName]string{near: "", far: "", own: string(request)} {
		s.must(s.kube.Create(s.ctx, &keyturnv1alpha1.EtcdAccess{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Spec: keyturnv1alpha1.EtcdAccessSpec{
				Cluster: keyturnv1alpha1.EtcdClusterReference{Name: etcd.Name, Namespace: etcd.Namespace}, Request: request,
			},
		}))
	}
	s.step("an application of the namespace has credentials", func() error { return s.untilAccess(near, model.SecretReady) })
	s.step("applications of another namespace are not allowed", func() error {
		return errors.Join(s.untilAccess(far, model.NamespaceNotAllowed), s.untilAccess(own, model.NamespaceNotAllowed))
	})
	cluster := &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name}}
	s.must(s.kube.Annotate(s.ctx, cluster, map[string]string{consentAnnotation: apps.Namespace}))
	s.step("applications of another namespace have credentials", func() error {
		return errors.Join(s.untilAccess(far, model.SecretReady), s.untilAccess(own, model.SecretReady))
	})
	if _, has := s.secretOf(own).Data[corev1.TLSPrivateKeyKey]; has {
		s.Errorf("Secret %s has a key although the application has sent a request", own)
	}
	applications := map[types.NamespacedName][]byte{near: nil, far: nil, own: key.PEM()}
	before := map[types.NamespacedName]*x509.Certificate{}
	for name, key := range applications {
		before[name] = s.connects(etcd, name, key)
	}
	s.keysStayPut(etcd.KeySearch(near, far))

	begun := time.Now()
	s.step("certificates are renewed", func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			for name := range applications {
				now, err := pki.FirstCertificate(s.secretOf(name).Data[corev1.TLSCertKey])
				if err != nil || now.Equal(before[name]) {
					return false, err
				}
			}
			return true, nil
		})
	})
	s.took(begun, "certificates renewed", "from the first connections until all certificates of ten minutes are renewed")
	for name, key := range applications {
		s.connects(etcd, name, key)
	}
	s.keysStayPut(etcd.KeySearch(near, far))
}

// connects writes and reads with what the Secret of an EtcdAccess has, and the key of the application if it has its
// own, and returns its certificate.
func (s *stage) connects(etcd harness.Etcd, name types.NamespacedName, key []byte) *x509.Certificate {
	s.Helper()
	data := s.secretOf(name).Data
	if key == nil {
		key = data[corev1.TLSPrivateKeyKey]
	}
	identity, err := tls.X509KeyPair(data[corev1.TLSCertKey], key)
	s.must(err)
	if user := identity.Leaf.Subject.CommonName; user != name.Namespace+":"+name.Name {
		s.Errorf("etcd knows the application of EtcdAccess %s as %q", name, user)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["ca.crt"]) {
		s.Fatalf("Secret %s has no CA", name)
	}
	s.step("the application of EtcdAccess "+name.Name+" writes and reads", func() error {
		ctx, cancel := context.WithTimeout(s.ctx, questionLimit)
		defer cancel()
		config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{identity}}
		connected, err := etcd.Client(ctx, etcd.Name+"-0", config)
		if err != nil {
			return err
		}
		defer func() { _ = connected.Close() }()
		return writeAndRead(ctx, connected, name.Name)
	})
	return identity.Leaf
}

func writeAndRead(ctx context.Context, connected *clientv3.Client, key string) error {
	if _, err := connected.Put(ctx, key, key); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	response, err := connected.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	if len(response.Kvs) != 1 || string(response.Kvs[0].Value) != key {
		return fmt.Errorf("reading %s: it is %v", key, response.Kvs)
	}
	return nil
}

func (s *stage) secretOf(name types.NamespacedName) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	s.must(s.kube.Get(s.ctx, name, secret))
	return secret
}

// untilAccess waits until the condition of an EtcdAccess has a reason.
func (s *stage) untilAccess(name types.NamespacedName, reason model.Reason) error {
	return s.untilObjectIn(name.Namespace, &keyturnv1alpha1.EtcdAccessList{}, name.Name, func(object client.Object) bool {
		access, is := object.(*keyturnv1alpha1.EtcdAccess)
		if !is {
			return false
		}
		ready := meta.FindStatusCondition(access.Status.Conditions, keyturnv1alpha1.ConditionReady)
		return ready != nil && ready.Reason == string(reason)
	})
}
