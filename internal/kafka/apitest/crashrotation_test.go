package apitest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// The operator crashes after its nth write of a rotation, for every n; and two
// operators that both believe to lead carry one out. At every write everybody
// accepts everybody, and the end is always the same.

// cluster is a running cluster with clients of every kind.
func cluster(replicas int32) func(w *world) {
	return func(w *world) {
		w.dualRole(replicas)
		w.settle()
		w.pin()
	}
}

// rotations are the scenarios for every day. Two nodes that talk to each other are
// enough where nothing is restarted; where little differs between nodes, one is.
func rotations() map[string]crashScenario {
	return map[string]crashScenario{
		"replacing the key of the cluster CA": {
			world:  inNewWorlds(cluster(2)),
			change: func(w *world, _ int) { w.replace(authorities.Cluster) },
		},
		"replacing the key of the clients CA": {
			world:  inNewWorlds(cluster(1)),
			change: func(w *world, _ int) { w.replace(authorities.Clients) },
		},
		"renewing the cluster CA": {
			world:  inOneWorld(cluster(2)),
			change: func(w *world, _ int) { w.renew(authorities.Cluster) },
		},
		"losing the key of the cluster CA": {
			world: inNewWorlds(cluster(1)),
			change: func(w *world, _ int) {
				w.classic()
				w.delete(&corev1.Secret{}, "my-cluster-ca")
			},
		},
		"replacing the key and aborting that": {
			world:  inNewWorlds(cluster(1)),
			change: func(w *world, _ int) { w.replaceAndAbort() },
		},
		"adopting certificates of an issuer's new key": {
			world: inNewWorlds(issued(2)),
			change: func(w *world, _ int) {
				next := caNamed(w.t, issuersTwo, longLasting)
				w.elsewhere.ca = next
				w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			},
		},
		"moving to an issuer": {
			world:  inNewWorlds(generated(2)),
			change: func(w *world, _ int) { w.moveOutside() },
		},
	}
}

// issued is a running cluster with certificates of an issuer.
func issued(replicas int32) func(w *world) {
	return func(w *world) {
		w.classic()
		ca := caNamed(w.t, issuersOne, longLasting)
		w.hasIssuer(ca)
		w.bringsBundle(ca.Certificate())
		w.asksOutside(replicas)
		w.settle()
	}
}

// generated is a running cluster with a CA of Keyturn's, and the issuer that it may move to.
func generated(replicas int32) func(w *world) {
	return func(w *world) {
		w.classic()
		ca := caNamed(w.t, issuersOne, longLasting)
		w.hasIssuer(ca)
		w.bringsBundle(ca.Certificate())
		w.dualRole(replicas)
		w.settle()
	}
}

// replaceAndAbort gives a replacement up when a node presents the new authority.
func (w *world) replaceAndAbort() {
	w.t.Helper()
	w.replace(authorities.Cluster)
	w.once(w.presents(1, nextV), func() { w.abort(authorities.Cluster) })
}

// largeRotations take minutes each.
func largeRotations() map[string]crashScenario {
	return map[string]crashScenario{
		"replacing and renewing at once": {
			world: inNewWorlds(cluster(2)),
			change: func(w *world, _ int) {
				w.renew(authorities.Cluster)
				w.replace(authorities.Cluster)
			},
		},
		"replacing twice": {
			world:  inNewWorlds(cluster(3)),
			change: func(w *world, _ int) { w.replaceTwice(w.presents(1, nextV)) },
		},
		"replacing with nodes of one role": {
			world: inNewWorlds(func(w *world) {
				w.create(kafkaResource(w.namespace))
				w.separatePools()
				w.settle()
				w.pin()
			}),
			change: func(w *world, _ int) { w.replace(authorities.Cluster) },
		},
		"distrusting the old key": {
			world: inNewWorlds(cluster(3)),
			change: func(w *world, _ int) {
				w.replace(authorities.Cluster)
				w.distrustNow(authorities.Cluster)
			},
		},
		"losing the key in a cluster of three": {
			world: inNewWorlds(cluster(3)),
			change: func(w *world, _ int) {
				w.classic()
				w.delete(&corev1.Secret{}, "my-cluster-ca")
			},
		},
		"replacing without reload": {
			world: inNewWorlds(func(w *world) {
				cluster(3)(w)
				w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
				w.settle()
			}),
			change: func(w *world, _ int) { w.replace(authorities.Cluster) },
		},
		"losing what pods mount in the middle": {
			world: inNewWorlds(cluster(2)),
			change: func(w *world, _ int) {
				w.replace(authorities.Cluster)
				w.once(w.presents(1, nextV), func() { w.delete(&corev1.Secret{}, "my-cluster-ca-trusted-certs") })
			},
		},
		"replacing with companions of both kinds": {
			world: inNewWorlds(func(w *world) {
				other := exporter(w.namespace, publication.LoadByRestart)
				other.Name, other.Secret = clusterName+"-other", clusterName+"-other-certs"
				other.Host = other.Name + "." + w.namespace + ".svc"
				w.accompany(exporter(w.namespace, publication.LoadByReload), other)
				cluster(1)(w)
			}),
			change: func(w *world, _ int) { w.replace(authorities.Cluster) },
		},
		"moving to the user's CA": {
			world:  inNewWorlds(issued(2)),
			change: func(w *world, _ int) { w.moveToOwnKeys(caNamed(w.t, usersOwn, longLasting)) },
		},
		"moving to another issuer": {
			world:  inNewWorlds(issued(2)),
			change: func(w *world, _ int) { w.changeIssuer("company-two", caNamed(w.t, issuersTwo, longLasting)) },
		},
		"restarting each node afterwards": {
			world: inNewWorlds(cluster(3)),
			change: func(w *world, n int) {
				w.replace(authorities.Cluster)
				w.once(w.presents(3, nextV), func() { w.configure("log.retention.hours", fmt.Sprint(12+n%2)) })
			},
		},
	}
}

func TestARotationGoesOnAfterACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	scenarios := rotations()
	maps.Copy(scenarios, oneOf(largeRotations()))
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAfterEveryWrite(t, scenario)
		})
	}
}

func TestAStaleLeaderBreaksNoRotation(t *testing.T) {
	t.Parallel()
	seeds := uint64(1)
	if *wide {
		seeds = 8
	}
	for name, change := range map[string]func(w *world){
		"replacing the cluster CA": func(w *world) { w.replace(authorities.Cluster) },
		"replacing the clients CA": func(w *world) { w.replace(authorities.Clients) },
		"replacing and aborting":   func(w *world) { w.replaceAndAbort() },
		"replacing twice":          func(w *world) { w.replaceTwice(w.trusts(1, nextV)) },
	} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				t.Parallel()
				w := turning(t, 3)
				w.lag["my-dual-1"] = 1
				lagging := newLaggingClient(w.faulty)
				other := w.newReconciler(lagging)
				w.reconcile(other)

				change(w)
				w.interleave(rand.New(rand.NewPCG(seed, 2)), other, lagging)
				w.settle()

				if !has(w.getKafka(), condition.Ready) {
					t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
				}
				if states := slices.Collect(maps.Values(w.anchors(authorities.Cluster))); !slices.Contains(states, trust.InUseAll) {
					t.Errorf("anchors are %v, want one that all use", w.anchors(authorities.Cluster))
				}
			})
		}
	}
}
