package apitest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// A mistake in a manifest may stay for longer than certificates last.

func TestCertificatesAreKeptUpWhileTheResourceIsInvalid(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]func(*world){
		"a version there is no image for": func(w *world) { w.patchKafka(map[string]any{"version": "3.9.0"}) },
		"a listener's certificate that is nowhere": func(w *world) {
			w.patchKafka(map[string]any{"listeners": []any{
				map[string]any{"name": "tls", "port": 9093, "type": "internal", "tls": true, "configuration": map[string]any{
					"brokerCertChainAndKey": map[string]any{"secretName": "nowhere", "certificate": "tls.crt", "key": "tls.key"},
				}},
				map[string]any{"name": "mtls", "port": 9094, "type": "internal", "tls": true, "authentication": map[string]any{"type": "tls"}},
			}})
		},
		"a listener that is not supported": func(w *world) {
			w.patchKafka(map[string]any{"listeners": []any{map[string]any{"name": "ext", "port": 9096, "type": "nodeport", "tls": true}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(kafkaResource(w.namespace), poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
			w.settle()
			leaf, pods, config := w.leafOf("my-dual-0"), w.podUIDs(), w.configurationOf("my-dual-0")
			mistake(w)

			w.clock.SetTime(nearTheEnd())
			w.settle()

			w.wantCondition(condition.NotReady)
			if pki.FingerprintOf(w.leafOf("my-dual-0")) == pki.FingerprintOf(leaf) {
				t.Error("the leaf was not renewed")
			}
			w.wantLoaded(w.caCertificate(authorities.Cluster))
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("pods %v were restarted, of %v", w.faulty.podsDeleted, pods)
			}
			if now := w.configurationOf("my-dual-0"); now != config {
				t.Errorf("configuration %s is published, want still %s", now, config)
			}
		})
	}
}

func TestWhatRaftClientsHoldIsReplacedWhileTheResourceIsInvalid(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]func(*world){
		"a version there is no image for": func(w *world) { w.patchKafka(map[string]any{"version": "3.9.0"}) },
		"a clients CA that cannot be read": func(w *world) {
			w.replaceData("my-clients-ca-cert", authority.CertKey, []byte("no certificate"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			config := w.configurationOf("my-dual-0")
			mistake(w)
			w.nobodyReads()

			for _, later := range []time.Duration{340 * authority.Day, 359 * authority.Day} {
				w.clock.SetTime(start().Add(later))
				w.settle()
			}

			w.wantCondition(condition.NotReady)
			w.wantRestarts(1)
			w.clock.SetTime(start().Add(366 * authority.Day))
			w.settle()
			w.wantRestarts(1)
			w.wantVerified()
			if now := w.configurationOf("my-dual-0"); now != config {
				t.Errorf("configuration %s is published, want still %s", now, config)
			}
		})
	}
}

// configurationOf is the configuration that a node is told to start with.
func (w *world) configurationOf(node string) string {
	w.t.Helper()
	published, err := publication.ParsePublication(w.secret(node).Data[agent.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	return published.Configuration
}
