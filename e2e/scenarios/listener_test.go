package scenarios

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
)

// customSecret has a certificate of the user's own for the listener tls.
const customSecret = "own-listener-certificate"

// listenerCertificate gives a listener the user's own certificate, replaces it by
// a bad one and then by a good one.
func listenerCertificate(s *stage) {
	s.onShared()
	authority := s.ownAuthority("my own listener CA", validity)
	first, second := s.listenerLeaf(authority), s.listenerLeaf(authority)
	s.store(first.certificate, first.key)
	both := slices.Concat(s.secret(clusterCACert).Data["ca.crt"], pki.EncodeBundle(authority.Certificate()))
	s.underLoadTrusting(both)

	s.loads("the user's certificate presented", func() error { return s.useListenerCertificate() })
	s.presentedOn("tls", authority, first.certificate)
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)

	s.step("a certificate that does not fit its key is refused", func() error {
		s.store(second.certificate, first.key)
		return s.kafka.Until(s.ctx, "warns of the listener's certificate", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.Warning, customSecret) || harness.Has(kafka, condition.NotReady, customSecret)
		})
	})
	s.presentedOn("tls", authority, first.certificate)
	during, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if replaced := differing(before, during); len(replaced) > 0 {
		s.Errorf("%q were restarted for a certificate that is refused", replaced)
	}

	s.loads("replaced by another certificate", func() error {
		s.store(second.certificate, second.key)
		return nil
	})
	s.presentedOn("tls", authority, second.certificate)
	s.quietly()
	s.restartedAtMost(1)                          // the listener's settings are read at a start
	s.shared.remove(context.WithoutCancel(s.ctx)) // it is not as it was
}

// leaf is a certificate and its key in PEM.
type leaf struct{ certificate, key []byte }

func (s *stage) listenerLeaf(authority pki.Authority) leaf {
	s.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	s.must(err)
	namespace := s.kafka.Namespace
	names, err := pki.NewSANs(
		"my-cluster-kafka-bootstrap", "my-cluster-kafka-bootstrap."+namespace, "my-cluster-kafka-bootstrap."+namespace+".svc",
		"my-cluster-kafka-bootstrap."+namespace+".svc.cluster.local",
		"*.my-cluster-kafka-brokers."+namespace+".svc", "*.my-cluster-kafka-brokers."+namespace+".svc.cluster.local")
	s.must(err)
	certificate, err := authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "my own listener"}, SANs: names, Usages: []pki.Usage{pki.ServerAuth},
		Validity: validity, Now: time.Now(),
	})
	s.must(err)
	return leaf{certificate: pki.EncodeBundle(certificate), key: key.PEM()}
}

// store writes the user's Secret.
func (s *stage) store(certificate, key []byte) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: s.meta(customSecret), Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}}
	if err := s.kube.Create(s.ctx, secret); err == nil {
		return
	}
	s.must(s.kube.MergePatch(s.ctx, &corev1.Secret{ObjectMeta: s.meta(customSecret)}, map[string]any{"data": secret.Data}))
}

// useListenerCertificate points the listener tls to the user's Secret.
func (s *stage) useListenerCertificate() error {
	manifest := s.example("kafka-dual-role.yaml")
	kafka, err := manifest.Find("Kafka", clusterName)
	if err != nil {
		return err
	}
	listeners, ok := kafka.Object["spec"].(map[string]any)["kafka"].(map[string]any)["listeners"].([]any)
	if !ok {
		s.Fatal("the example has no listeners")
	}
	for _, listener := range listeners {
		if fields, ok := listener.(map[string]any); ok && fields["name"] == "tls" {
			fields["configuration"] = map[string]any{"brokerCertChainAndKey": map[string]any{
				"secretName": customSecret, "certificate": "tls.crt", "key": "tls.key",
			}}
		}
	}
	return s.kube.Apply(s.ctx, s.kafka.Namespace, manifest)
}

// underLoadTrusting starts clients, one of which trusts on the listener tls what it
// was given.
func (s *stage) underLoadTrusting(authorities []byte) {
	s.Helper()
	trust, err := probe.Fixed(authorities)
	s.must(err)
	s.step("clients work", func() error {
		load, err := s.kafka.LoadWith(s.ctx, []string{"mtls@mtls", "scram@scram", "plain@plain", "pinned@tls"}, func(options *probe.Options) {
			for i := range options.Clients {
				if options.Clients[i].Kind == probe.KindPinned {
					options.Clients[i].Kind, options.Clients[i].Trust = "given", trust
				}
			}
		})
		s.load = load
		return err
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
}

// presentedOn checks with fresh handshakes that all nodes present a certificate.
func (s *stage) presentedOn(name string, authority pki.Authority, certificate []byte) {
	s.Helper()
	want, err := pki.FirstCertificate(certificate)
	s.must(err)
	opened, err := s.kafka.Target(s.ctx)
	s.must(err)
	listener, err := opened.Listener(name)
	s.must(err)
	credentials, err := s.kafka.Credentials(s.ctx)
	s.must(err)
	credentials.Anchors = append(credentials.Anchors, authority.Certificate())
	for _, node := range opened.Network().Nodes() {
		seen := shows(s.ctx, opened, credentials, hostPort(node.Host, listener.Port))
		if seen.err != nil || seen.leaf != pki.FingerprintOf(want).String() {
			s.Errorf("%s presents %s on listener %s, to be presented is %s; %v", node.Name, seen.leaf, name, pki.FingerprintOf(want), seen.err)
		}
	}
}
