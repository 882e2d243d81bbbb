package binding_test

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func now() time.Time { return time.Unix(1_800_000_000, 0) }

func customListener() kafkav1.Listener {
	l := listener("custom", kafkav1.ListenerInternal, true, "")
	l.Configuration = &kafkav1.ListenerConfiguration{
		BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: "chain", Certificate: "crt", Key: "key"},
	}
	return l
}

func TestWhereTheCAsAreFollowsFromListenerAndReference(t *testing.T) {
	t.Parallel()
	ofSecret := &accessv1alpha1.TruststoreReference{SecretName: "my-root", Key: "root.crt"}
	ofSystem := &accessv1alpha1.TruststoreReference{System: true}
	plain, encrypted := listener("plain", kafkav1.ListenerInternal, false, ""), listener("tls", kafkav1.ListenerInternal, true, "")
	for name, test := range map[string]struct {
		listener  kafkav1.Listener
		reference *accessv1alpha1.TruststoreReference
		want      types.NamespacedName
	}{
		"no encryption":                          {listener: plain},
		"no encryption, whatever is referred to": {listener: plain, reference: ofSecret},
		"the cluster CA":                         {listener: encrypted, want: types.NamespacedName{Namespace: "kafka", Name: "my-cluster-cluster-ca-cert"}},
		"a certificate of its own":               {listener: customListener(), want: types.NamespacedName{Namespace: "kafka", Name: "chain"}},
		"a Secret of the KafkaAccess":            {listener: customListener(), reference: ofSecret, want: types.NamespacedName{Namespace: "apps", Name: "my-root"}},
		"a Secret instead of the cluster CA":     {listener: encrypted, reference: ofSecret, want: types.NamespacedName{Namespace: "apps", Name: "my-root"}},
		"the system":                             {listener: customListener(), reference: ofSystem},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := binding.TrustOf(kafkaWith(test.listener), &test.listener, binding.Source{Truststore: test.reference}, "apps")
			if diff := cmp.Diff(test.want, trust.Secret); diff != "" {
				t.Errorf("the CAs are elsewhere (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAListenerWithACertificateOfItsOwnGetsTheRootOfItsChain(t *testing.T) {
	t.Parallel()
	root, middle, old := pkitest.CA(t, "root", now()), pkitest.CA(t, "middle", now()), pkitest.CA(t, "old", now())
	intermediate := pkitest.Changed(t, root, middle, func(*x509.Certificate) {}).Certificate()
	leaf := pkitest.Changed(t, root, pkitest.CA(t, "leaf", now()), func(*x509.Certificate) {}).Certificate()
	ended := pkitest.Changed(t, root, root, func(ca *x509.Certificate) { ca.NotAfter = now().Add(-time.Minute) }).Certificate()
	for name, test := range map[string]struct {
		chain  []*x509.Certificate
		shown  []string
		want   []*x509.Certificate
		reason binding.Reason
	}{
		"a whole chain":              {chain: []*x509.Certificate{leaf, intermediate, root.Certificate()}, want: []*x509.Certificate{root.Certificate()}},
		"an expired root behind it":  {chain: []*x509.Certificate{leaf, root.Certificate(), ended}, want: []*x509.Certificate{root.Certificate()}},
		"an expired root alone":      {chain: []*x509.Certificate{leaf, ended}, reason: binding.TrustUnknown},
		"a chain without its root":   {chain: []*x509.Certificate{leaf, intermediate}, reason: binding.TrustUnknown},
		"a bare leaf":                {chain: []*x509.Certificate{leaf}, reason: binding.TrustUnknown},
		"nodes present another root": {chain: []*x509.Certificate{leaf, root.Certificate()}, shown: []string{string(pki.EncodeBundle(leaf, old.Certificate()))}, want: []*x509.Certificate{root.Certificate(), old.Certificate()}},
		"nodes present the same":     {chain: []*x509.Certificate{leaf, root.Certificate()}, shown: []string{string(pki.EncodeBundle(leaf, root.Certificate()))}, want: []*x509.Certificate{root.Certificate()}},
		"the status is damaged":      {chain: []*x509.Certificate{leaf, root.Certificate()}, shown: []string{"damaged"}, want: []*x509.Certificate{root.Certificate()}},
		"nodes alone have a root":    {chain: []*x509.Certificate{leaf}, shown: []string{string(pki.EncodeBundle(leaf, old.Certificate()))}, reason: binding.TrustUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			custom := customListener()
			kafka := kafkaWith(custom)
			kafka.Status.Listeners = []kafkav1.ListenerStatus{{Name: "custom", Certificates: test.shown}}
			trust := binding.TrustOf(kafka, &custom, binding.Source{}, "apps")
			got, err := trust.Certificates(binding.Stored{Name: "chain", Data: map[string][]byte{"crt": pki.EncodeBundle(test.chain...)}}, now())
			if reason := problemOf(t, err); reason != test.reason {
				t.Fatalf("the reason is %q, want %q", reason, test.reason)
			}
			if diff := cmp.Diff(string(pki.EncodeBundle(test.want...)), string(got)); diff != "" {
				t.Errorf("the CAs differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCertificatesAloneAreCopied(t *testing.T) {
	t.Parallel()
	encrypted := listener("tls", kafkav1.ListenerInternal, true, "")
	root, next := pkitest.CA(t, "root", now()), pkitest.CA(t, "next", now())
	certificate, key := pki.EncodeBundle(root.Certificate()), root.Key().PEM()
	for from, reference := range map[string]*accessv1alpha1.TruststoreReference{
		"the cluster CA": nil, "a reference": {SecretName: "my-root", Key: "ca.crt"},
	} {
		trust := binding.TrustOf(kafkaWith(encrypted), &encrypted, binding.Source{Truststore: reference}, "apps")
		for name, test := range map[string]struct {
			entry  []byte
			want   []*x509.Certificate
			reason binding.Reason
		}{
			"a certificate": {entry: certificate, want: []*x509.Certificate{root.Certificate()}},
			"two, of which one twice": {
				entry: pki.EncodeBundle(root.Certificate(), next.Certificate(), root.Certificate()),
				want:  []*x509.Certificate{root.Certificate(), next.Certificate()},
			},
			"a key":                 {entry: key, reason: binding.IncompleteSecret},
			"both":                  {entry: slices.Concat(certificate, key), reason: binding.IncompleteSecret},
			"half of a certificate": {entry: certificate[:len(certificate)/2], reason: binding.IncompleteSecret},
			"nothing":               {reason: binding.IncompleteSecret},
			"a text":                {entry: []byte("password"), reason: binding.IncompleteSecret},
		} {
			got, err := trust.Certificates(binding.Stored{Name: trust.Secret.Name, Data: map[string][]byte{"ca.crt": test.entry}}, now())
			if reason := problemOf(t, err); reason != test.reason || !bytes.Equal(got, pki.EncodeBundle(test.want...)) {
				t.Errorf("%s of %s: %d bytes with reason %q, want %d certificates with %q", name, from, len(got), reason, len(test.want), test.reason)
			}
		}
	}
}

func TestEveryCAOfTheClusterIsTrustedWhileItIsPublished(t *testing.T) {
	t.Parallel()
	encrypted := listener("tls", kafkav1.ListenerInternal, true, "")
	trust := binding.TrustOf(kafkaWith(encrypted), &encrypted, binding.Source{}, "apps")
	issuer := pkitest.CA(t, "root", now())
	next, old, added := pkitest.CA(t, "next", now()).Certificate(), pkitest.CA(t, "old", now()).Certificate(), pkitest.CA(t, "added", now()).Certificate()
	expired, root := pkitest.CA(t, "expired", now().AddDate(-2, 0, 0)).Certificate(), issuer.Certificate()
	below := pkitest.Changed(t, issuer, pkitest.CA(t, "below", now()), func(*x509.Certificate) {}).Certificate()
	leaf, err := issuer.Issue(issuer.Key().Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "leaf"}, Usages: []pki.Usage{pki.ServerAuth}, Validity: time.Hour, Now: now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	const dated, earlier = "ca-2028-01-15T08-00-00Z.crt", "ca-2027-01-14T08-00-00Z.crt"
	for name, test := range map[string]struct {
		others map[string][]*x509.Certificate
		want   []*x509.Certificate
	}{
		"alone":                             {want: []*x509.Certificate{next}},
		"beside the previous one":           {others: map[string][]*x509.Certificate{dated: {old}}, want: []*x509.Certificate{next, old}},
		"beside one that has expired":       {others: map[string][]*x509.Certificate{dated: {old}, earlier: {expired}}, want: []*x509.Certificate{next, old}},
		"beside one that a person added":    {others: map[string][]*x509.Certificate{"added.crt": {added}, dated: {old}}, want: []*x509.Certificate{next, added, old}},
		"beside itself":                     {others: map[string][]*x509.Certificate{dated: {next}}, want: []*x509.Certificate{next}},
		"beside an intermediate":            {others: map[string][]*x509.Certificate{dated: {below, root}}, want: []*x509.Certificate{next, below, root}},
		"beside what is no CA":              {others: map[string][]*x509.Certificate{dated: {leaf}}, want: []*x509.Certificate{next}},
		"beside an entry of another name":   {others: map[string][]*x509.Certificate{"ca.pem": {added}}, want: []*x509.Certificate{next}},
		"expired, as nobody has renewed it": {others: map[string][]*x509.Certificate{"ca.crt": {expired}}, want: []*x509.Certificate{expired}},
	} {
		data := map[string][]byte{"ca.crt": pki.EncodeBundle(next), "ca.p12": {1}, "ca.password": []byte("letmein")}
		for key, entry := range test.others {
			data[key] = pki.EncodeBundle(entry...)
		}
		got, err := trust.Certificates(binding.Stored{Name: trust.Secret.Name, Data: data}, now())
		if err != nil || !bytes.Equal(got, pki.EncodeBundle(test.want...)) {
			t.Errorf("%s: the CAs are\n%s, want\n%s (%v)", name, got, pki.EncodeBundle(test.want...), err)
		}
	}
	for name, data := range map[string]map[string][]byte{
		"a leaf as ca.crt":         {"ca.crt": pki.EncodeBundle(leaf)},
		"a key under a dated name": {"ca.crt": pki.EncodeBundle(next), dated: issuer.Key().PEM()},
		"an empty dated name":      {"ca.crt": pki.EncodeBundle(next), dated: nil},
	} {
		got, err := trust.Certificates(binding.Stored{Name: trust.Secret.Name, Data: data}, now())
		if reason := problemOf(t, err); reason != binding.IncompleteSecret || got != nil {
			t.Errorf("%s: the reason is %q with %d bytes", name, reason, len(got))
		}
	}
}
