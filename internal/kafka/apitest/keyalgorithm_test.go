package apitest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// Keys of another kind are asked for in the middle of a replacement. Everybody
// accepts everybody all the way, which the world sees to: a leaf that is issued
// again for its key comes from whom all trust at that time.
func TestKeysOfAnotherKindInTheMiddleCutNobodyOff(t *testing.T) {
	t.Parallel()
	for moment, when := range map[string]func(w *world) func() bool{
		"admitted":     func(w *world) func() bool { return w.admitted(authorities.Cluster) },
		"one trusts":   func(w *world) func() bool { return w.trusts(1, nextV) },
		"one presents": func(w *world) func() bool { return w.presents(1, nextV) },
	} {
		for way, crossSigned := range map[string]bool{"with a cross certificate": true, "without one": false} {
			t.Run(moment+", "+way, func(t *testing.T) {
				t.Parallel()
				w := turning(t, 3)
				w.lag["my-dual-1"] = 2
				if crossSigned {
					w.replace(authorities.Cluster)
				} else {
					w.classic()
					w.delete(&corev1.Secret{}, "my-cluster-ca")
				}
				w.once(when(w), func() {
					w.silent["my-dual-2"] = true
					w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{
						"clusterCa": map[string]any{"keyAlgorithm": string(kafkav1.RSA), "keySize": 2048},
					}})
				})
				for len(w.acts) > 0 {
					w.run(2)                                             // servers are surveyed in one of them
					w.clock.SetTime(w.clock.Now().Add(20 * time.Second)) // applications get time to read
				}
				w.run(8)
				delete(w.silent, "my-dual-2")
				w.settle()

				if !w.presents(3, nextV)() {
					t.Errorf("roles are %v, want %s presented by all", w.roles(), nextV)
				}
				w.wantRSA()
			})
		}
	}
}

// wantRSA checks that nobody is left with a key of before.
func (w *world) wantRSA() {
	w.t.Helper()
	leaves := map[string]string{"my-cluster-operator-certs": "cluster-operator"}
	for pod := range w.podUIDs() {
		leaves[pod] = pod
	}
	for secret, name := range leaves {
		key, err := pki.ParsePrivateKey(w.secret(secret).Data[name+".key"])
		if err != nil {
			w.t.Fatal(err)
		}
		if algorithm := key.Params().Algorithm; algorithm != pki.RSA {
			w.t.Errorf("the key of %s is of %s", secret, algorithm)
		}
	}
}
