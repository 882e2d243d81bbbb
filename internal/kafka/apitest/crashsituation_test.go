package apitest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// What else can happen to an authority, with a crash after every write of what the
// operator does about it.

const longLasting = 1000 * authority.Day

func TestASituationEndsTheSameAfterACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	for name, scenario := range oneOf(situations()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAfterEveryWrite(t, scenario)
		})
	}
}

func situations() map[string]crashScenario {
	all := usersSituations()
	for name, change := range losses() {
		all[name] = crashScenario{world: inNewWorlds(cluster(2)), change: func(w *world, _ int) { change(w) }}
	}
	all["renewing in the middle"] = crashScenario{
		world: inNewWorlds(cluster(2)),
		change: func(w *world, _ int) {
			w.replace(authorities.Cluster)
			w.once(w.presents(1, nextV), func() { w.renew(authorities.Cluster) })
		},
		// Controllers trust the renewed certificate until then if they had to.
		afterwards: (*world).restartEach,
	}
	for name, change := range passingTimes() {
		all[name] = crashScenario{world: inNewWorlds(cluster(2)), change: func(w *world, _ int) { change(w) }}
	}
	all["renewing and replacing in the window"] = crashScenario{
		world: inNewWorlds(func(w *world) {
			cluster(2)(w)
			w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"maintenanceTimeWindows": []any{closedWindow}}})
			w.settle()
			w.renew(authorities.Cluster)
			w.replace(authorities.Cluster)
			w.settle()
		}),
		change: func(w *world, _ int) { w.clock.SetTime(start().Add(11 * time.Hour)) },
	}
	all["creating a cluster with an authority that has ended"] = crashScenario{
		world:  inNewWorlds(func(w *world) { w.createCA(authorities.Cluster, expiredCA(w.t), "0") }),
		change: func(w *world, _ int) { w.dualRole(2) },
	}
	return all
}

// usersSituations are those of an authority that a user brings.
func usersSituations() map[string]crashScenario {
	create := func(w *world) { w.corporate(caNamed(w.t, "corporate one", longLasting), 3) }
	corporate := func(w *world) {
		create(w)
		w.settle()
	}
	return map[string]crashScenario{
		"creating a cluster with a user's authority": {
			world:  inNewWorlds(func(*world) {}),
			change: func(w *world, _ int) { create(w) },
		},
		"a user's new key with the old certificate beside it": {
			world: inNewWorlds(corporate),
			change: func(w *world, _ int) {
				w.without[readsBundle], w.without[readsFirst] = true, true
				old := w.caCertificate(authorities.Cluster)
				w.replaceOwn(caNamed(w.t, "corporate two", longLasting), "1", map[string][]byte{authority.DatedCertKey(old): pki.EncodeBundle(old)})
			},
		},
		"a user's new key alone": {
			world: inNewWorlds(corporate),
			change: func(w *world, _ int) {
				w.nobodyReads()
				w.replaceOwn(caNamed(w.t, "corporate two", longLasting), "1", nil)
			},
		},
		"a user's renewal": {
			world:  inNewWorlds(corporate),
			change: func(w *world, _ int) { w.renewOwn() },
		},
		"a user's renewal with another subject": {
			world: inNewWorlds(corporate),
			change: func(w *world, _ int) {
				w.without[readsBundle], w.without[readsFirst] = true, true
				w.pin()
				w.renames(w.renamed(w.presentCA(), ownTwo), "1")
			},
		},
		"a user's renewals with other subjects in a row": {
			world: inNewWorlds(corporate),
			change: func(w *world, _ int) {
				w.without[readsBundle], w.without[readsFirst] = true, true
				w.pin()
				w.renames(w.renamed(w.presentCA(), ownTwo), "1")
				w.once(w.presents(1, ownTwo), func() { w.renames(w.renamed(w.presentCA(), ownThree), "2") })
			},
			// Which controllers have been given the second one before the third came is a
			// matter of time; they trust it until then.
			afterwards: (*world).restartEach,
		},
		"handing a cluster to the user's authority": {
			world:  inNewWorlds(cluster(2)),
			change: func(w *world, _ int) { w.handToUser(caNamed(w.t, "corporate", longLasting)) },
		},
		"handing a cluster back and replacing the key": {
			world: inNewWorlds(corporate),
			change: func(w *world, _ int) {
				w.generate(true)
				w.replace(authorities.Cluster)
			},
		},
	}
}

// renewOwn puts another certificate of the same key into the user's Secret.
func (w *world) renewOwn() {
	w.t.Helper()
	ca := w.presentCA()
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 2*longLasting, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.replaceOwn(renewed, "1", nil)
}

// presentCA is the cluster CA of which the Secrets hold certificate and key.
func (w *world) presentCA() pki.Authority {
	w.t.Helper()
	key, err := pki.ParsePrivateKey(w.secret("my-cluster-ca").Data[authority.KeyKey])
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := pki.NewAuthority(w.caCertificate(authorities.Cluster), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return ca
}

// losses are Secrets that go, or change, by somebody's hand.
func losses() map[string]func(w *world) {
	const trustedCerts = "my-cluster-ca-trusted-certs"
	inTheMiddle := func(do func(w *world)) func(w *world) {
		return func(w *world) {
			w.replace(authorities.Cluster)
			w.once(w.presents(1, nextV), func() { do(w) })
		}
	}
	return map[string]func(w *world){
		"losing the certificate in the middle": inTheMiddle(func(w *world) { w.delete(&corev1.Secret{}, "my-cluster-ca-cert") }),
		"losing the key in the middle": func(w *world) {
			w.classic()
			inTheMiddle(func(w *world) { w.delete(&corev1.Secret{}, "my-cluster-ca") })(w)
		},
		"losing key and certificate": func(w *world) {
			w.classic()
			w.delete(&corev1.Secret{}, "my-cluster-ca")
			w.delete(&corev1.Secret{}, "my-cluster-ca-cert")
		},
		"losing what pods mount at rest":        func(w *world) { w.delete(&corev1.Secret{}, trustedCerts) },
		"editing what pods mount in the middle": inTheMiddle(func(w *world) { w.restate(trustedCerts, trust.PhaseOut) }),
		"pausing in the middle": func(w *world) {
			pause := func(value any) func() {
				return func() {
					w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": value})
				}
			}
			w.replace(authorities.Cluster)
			w.once(w.presents(1, nextV), pause(asked))
			w.once(func() bool { return has(w.getKafka(), condition.ReconciliationPaused) }, pause(nil))
		},
	}
}

// passingTimes are what nobody asks for.
func passingTimes() map[string]func(w *world) {
	return map[string]func(w *world){
		"renewing because it is time":           func(w *world) { w.clock.SetTime(nearTheEnd()) },
		"coming back when everything has ended": func(w *world) { w.clock.SetTime(start().Add(370 * authority.Day)) },
		"replacing because that is what time asks for": func(w *world) {
			w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{
				"clusterCa": map[string]any{"certificateExpirationPolicy": "replace-key"},
			}})
			w.clock.SetTime(nearTheEnd())
		},
	}
}
