package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// presenting is a listener that takes its certificate from a Secret.
func presenting(name, secret string) kafkav1.Listener {
	return kafkav1.Listener{Name: name, TLS: true, Configuration: &kafkav1.ListenerConfiguration{
		BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: secret, Certificate: "tls.crt", Key: "tls.key"},
	}}
}

// lent is an API server with Secrets that hold an entry of each size, and how often each is read.
func lent(secrets map[string]map[string]int) (api client.Client, reads map[string]int) {
	reads = map[string]int{}
	var objects []client.Object
	for name, entries := range secrets {
		secret := &corev1.Secret{ObjectMeta: named(name, nil), Data: map[string][]byte{}}
		for entry, size := range entries {
			secret.Data[entry] = make([]byte, size)
		}
		objects = append(objects, secret)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, secret := object.(*corev1.Secret); secret {
				reads[key.Name]++
			}
			return api.Get(ctx, key, object, options...)
		},
	}), reads
}

func TestOfSecretsThatListenersNameOnlyTheNamedEntriesAreKept(t *testing.T) {
	t.Parallel()
	const most = 256 << 10
	usual := map[string]int{"tls.crt": 6 << 10, "tls.key": 3 << 10}
	for name, c := range map[string]struct {
		secrets   map[string]map[string]int
		listeners []string
		// kept are the sizes of what is kept, and unread what is not, by Secret and entry.
		kept   map[string]int
		unread []string
	}{
		"a usual one": {
			map[string]map[string]int{"a": usual}, []string{"a"}, map[string]int{"a/tls.crt": 6 << 10, "a/tls.key": 3 << 10}, nil,
		},
		"one of several listeners": {
			map[string]map[string]int{"a": usual}, []string{"a", "a", "a"}, map[string]int{"a/tls.crt": 6 << 10, "a/tls.key": 3 << 10}, nil,
		},
		"one with more than that": {
			map[string]map[string]int{"a": {"tls.crt": 1, "tls.key": 2, "backup.tar": 900 << 10}}, []string{"a"}, map[string]int{"a/tls.crt": 1, "a/tls.key": 2}, nil,
		},
		"entries of the longest": {
			map[string]map[string]int{"a": {"tls.crt": most, "tls.key": most}}, []string{"a"}, map[string]int{"a/tls.crt": most, "a/tls.key": most}, nil,
		},
		"entries that are longer": {
			map[string]map[string]int{"a": {"tls.crt": most + 1, "tls.key": most + 1}}, []string{"a"}, nil, []string{"a/tls.crt", "a/tls.key"},
		},
		"more than there is room for": {
			map[string]map[string]int{"a": {"tls.crt": most, "tls.key": most}, "b": {"tls.crt": most, "tls.key": most}, "c": usual},
			[]string{"a", "b", "c"},
			map[string]int{"a/tls.crt": most, "a/tls.key": most, "b/tls.crt": most, "b/tls.key": most},
			[]string{"c/tls.crt", "c/tls.key"},
		},
		"one that does not exist":   {nil, []string{"a"}, nil, nil},
		"a name that none can have": {nil, []string{"../a"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, reads := lent(c.secrets)
			r := New(Options{Client: api, Live: api, Metrics: metrics.New()})
			p := clusterWithSets()
			for i, secret := range c.listeners {
				p.kafka.Spec.Kafka.Listeners = append(p.kafka.Spec.Kafka.Listeners, presenting(fmt.Sprintf("tls%d", i), secret))
			}

			if err := r.observeReferenced(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}

			kept, unread := map[string]int{}, []string{}
			for secret, b := range p.referenced {
				for entry, value := range b.stored.Data {
					kept[secret+"/"+entry] = len(value)
				}
				for entry := range b.unread {
					unread = append(unread, secret+"/"+entry)
				}
			}
			slices.Sort(unread)
			if !maps.Equal(kept, c.kept) || !slices.Equal(unread, c.unread) {
				t.Errorf("kept are %v, want %v; not read are %v, want %v", kept, c.kept, unread, c.unread)
			}
			for secret, times := range reads {
				if times != 1 {
					t.Errorf("Secret %s is read %d times", secret, times)
				}
			}
		})
	}
}

func TestAnEntryThatIsTooLongIsRefusedByName(t *testing.T) {
	t.Parallel()
	api, _ := lent(map[string]map[string]int{"mine": {"tls.crt": 300 << 10, "tls.key": 300 << 10}})
	r := New(Options{Client: api, Live: api, Metrics: metrics.New()})
	c := clusterWithSets()
	c.kafka.Spec.Kafka.Listeners = []kafkav1.Listener{presenting("tls", "mine")}
	c.cluster.Listeners = []model.Listener{{Name: "tls", Port: 9093, TLS: true, Certificate: &model.CertificateSource{
		Secret: "mine", CertificateKey: "tls.crt", PrivateKeyKey: "tls.key",
	}}}
	if err := r.observeReferenced(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}

	err := c.checkCustomCertificates()

	invalid, is := errors.AsType[*authority.InvalidResourceError](err)
	if !is || len(invalid.Problems) != 2 {
		t.Fatalf("error %v, want what is wrong with both entries", err)
	}
	for i, entry := range []string{"tls.crt", "tls.key"} {
		if reported := invalid.Problems[i].String(); !strings.Contains(reported, "Secret mine (listener tls)") || !strings.Contains(reported, entry+": the text has 307200 bytes: at most 262144 are read") {
			t.Errorf("it says %q", reported)
		}
	}
}
