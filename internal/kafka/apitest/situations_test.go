package apitest

import (
	"maps"
	"slices"
	"strings"
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

// What else can happen to an authority, at rest and in the middle of a rotation.

func TestBothRequestsAtOnceAreCarriedOut(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	before := w.caCertificate(authorities.Cluster)

	w.renew(authorities.Cluster)
	w.replace(authorities.Cluster)
	w.settle()

	w.wantServed()
	renewed := slices.ContainsFunc(w.offers, func(o offered) bool {
		for _, cert := range w.certs.readBy(readsAllFiles, o.files) {
			if pki.KeyIDOf(cert) == pki.KeyIDOf(before) && !cert.Equal(before) {
				return true
			}
		}
		return false
	})
	if !renewed {
		t.Error("nothing was renewed")
	}
	w.restartEach()
	w.wantAlone(nextV)
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
}

// wantServed checks that no request is left.
func (w *world) wantServed() {
	w.t.Helper()
	for _, name := range []string{"my-cluster-ca", "my-cluster-ca-cert", "my-clients-ca", "my-clients-ca-cert"} {
		for _, annotation := range []string{authorities.ForceRenewAnnotation, authorities.ForceReplaceAnnotation, "keyturn.dev/abort-replace"} {
			if value, left := w.secret(name).Annotations[annotation]; left {
				w.t.Errorf("Secret %s still has %s=%s", name, annotation, value)
			}
		}
	}
}

func TestAClosedWindowKeepsBothRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.MaintenanceTimeWindows = []string{closedWindow}
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	before := w.caCertificate(authorities.Cluster)

	w.renew(authorities.Cluster)
	w.replace(authorities.Cluster)
	w.settle()

	if !w.caCertificate(authorities.Cluster).Equal(before) || len(w.anchors(authorities.Cluster)) != 1 {
		t.Fatalf("something happened outside of the window: %v", w.anchors(authorities.Cluster))
	}
	if w.secret("my-cluster-ca").Annotations[authorities.ForceReplaceAnnotation] == "" {
		t.Error("the request is gone")
	}

	w.clock.SetTime(start().Add(11 * time.Hour))
	w.settle()

	w.wantServed()
	w.restartEach()
	w.wantAlone(nextV)
}

func TestASecondReplacementOvertakesTheFirst(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(w *world) func() bool{
		"before anybody trusts the first": func(w *world) func() bool { return w.admitted(authorities.Cluster) },
		"when some present the first":     func(w *world) func() bool { return w.presents(1, nextV) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.lag["my-dual-1"] = 1

			w.replaceTwice(when(w))
			w.settle()
			w.restartEach()

			w.wantAlone("cluster-ca v2")
			w.wantServed()
		})
	}
}

// replaceTwice asks for another key when the first replacement has come so far.
func (w *world) replaceTwice(when func() bool) {
	w.t.Helper()
	w.replace(authorities.Cluster)
	w.once(when, func() { w.replace(authorities.Cluster) })
}

func TestKeysAreReplacedAgainAndAgainWithoutARestart(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	for range 3 {
		w.replace(authorities.Cluster)
		w.settle()
	}
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
	w.wantRoles(" replication-9091", "presents cluster-ca v3 cross-signed by cluster-ca v2, cluster-ca v1, cluster-ca v0, trusts cluster-ca v3")

	w.restartEach()

	w.wantAlone("cluster-ca v3")
}

func TestARenewalDuringAReplacementKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(w *world) func() bool{
		"when some trust the new one":   func(w *world) func() bool { return w.trusts(1, nextV) },
		"when some present the new one": func(w *world) func() bool { return w.presents(1, nextV) },
		"when all present the new one":  func(w *world) func() bool { return w.presents(3, nextV) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.lag["my-dual-1"] = 2

			w.replace(authorities.Cluster)
			w.once(when(w), func() { w.renew(authorities.Cluster) })
			w.settle()

			w.wantServed()
			w.restartEach()
			w.wantAlone(nextV)
		})
	}
}

func TestAnAbortedReplacementEndsAsItBegan(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(w *world) func() bool{
		"before anybody trusts the new one": func(w *world) func() bool { return w.admitted(authorities.Cluster) },
		"when some trust the new one":       func(w *world) func() bool { return w.trusts(1, nextV) },
		"when some present the new one":     func(w *world) func() bool { return w.presents(1, nextV) },
		"when all present the new one":      func(w *world) func() bool { return w.presents(3, nextV) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.lag["my-dual-1"] = 1

			w.replace(authorities.Cluster)
			w.once(when(w), func() { w.abort(authorities.Cluster) })
			w.settle()
			w.restartEach()

			w.wantAlone(firstV)
			w.wantServed()
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("restarted: %v", w.faulty.podsDeleted)
			}
		})
	}
}

func TestAPauseInTheMiddleKeepsEverythingAndNamesTheDeadline(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.once(w.presents(1, nextV), func() {
		w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	})
	w.settle()
	paused := w.standing()
	w.settle()

	if again := w.standing(); !slices.Equal(paused, again) {
		t.Errorf("it went from\n%v\nto\n%v", paused, again)
	}
	w.wantCondition(condition.ReconciliationPaused)
	w.wantCondition(clusterTrust, "2028-02-29")

	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": nil})
	w.settle()

	w.wantRemainder(firstV, nextV)
}

// edit is what somebody does to a Secret that pods mount.
type edit func(w *world)

func TestTrustedCertsThatAreLostOrEditedComeBack(t *testing.T) {
	t.Parallel()
	const trustedCerts = "my-cluster-ca-trusted-certs"
	edits := map[string]edit{
		"lost": func(w *world) { w.delete(&corev1.Secret{}, trustedCerts) },
		"emptied": func(w *world) {
			for key := range w.secret(trustedCerts).Data {
				w.dropData(trustedCerts, key)
			}
		},
		"with other states": func(w *world) {
			w.restate(trustedCerts, trust.PhaseOut)
		},
		"with a stranger": func(w *world) {
			stranger := newCA(w.t).Certificate()
			w.stranger = stranger
			w.replaceData(trustedCerts, pki.SHA1Name(stranger)+".crt", pki.EncodeBundle(stranger))
			w.replaceData(trustedCerts, pki.SHA1Name(stranger)+".state", []byte(trust.InUseAll))
		},
	}
	for what, edit := range edits {
		t.Run(what+" at rest", func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			edit(w)
			w.settle()

			w.wantAlone(firstV)
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("restarted: %v", w.faulty.podsDeleted)
			}
		})
		t.Run(what+" in the middle", func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.lag["my-dual-1"] = 2
			w.replace(authorities.Cluster)
			w.once(w.trusts(1, nextV), func() { edit(w) })
			w.settle()

			w.restartEach()
			w.wantAlone(nextV)
		})
	}
}

// restate gives every anchor of a Secret the same state by hand.
func (w *world) restate(secret string, state trust.State) {
	w.t.Helper()
	for key := range w.secret(secret).Data {
		if strings.HasSuffix(key, ".state") {
			w.replaceData(secret, key, []byte(state))
		}
	}
}

func TestALostKeyIsReplacedAndNobodyIsCutOff(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the key's Secret": func(w *world) { w.delete(&corev1.Secret{}, "my-cluster-ca") },
		"both Secrets": func(w *world) {
			// Whoever looks for the certificate now finds nothing; who has it keeps it.
			w.delete(&corev1.Secret{}, "my-cluster-ca")
			w.delete(&corev1.Secret{}, "my-cluster-ca-cert")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.classic()

			lose(w)
			w.settle()

			w.wantAlone(nextV)
			w.wantRestarts(2)
		})
	}
}

func TestALostKeyInTheMiddleOfAReplacement(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.classic()
	w.lag["my-dual-1"] = 2

	w.replace(authorities.Cluster)
	w.once(w.trusts(1, nextV), func() { w.delete(&corev1.Secret{}, "my-cluster-ca") })
	w.settle()
	w.restartEach()

	if anchors := w.anchors(authorities.Cluster); len(anchors) != 1 || anchors[firstV] != "" {
		t.Errorf("anchors are %v, want one, and not the one whose key is lost", anchors)
	}
	if !has(w.getKafka(), condition.Ready) {
		t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
	}
}

func TestADistrustedAuthorityIsHeldByNobodyAfterOneRestart(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)

	w.replace(authorities.Cluster)
	w.distrustNow(authorities.Cluster)
	w.settle()

	w.wantAlone(nextV)
	w.wantRestarts(1)
	for role, words := range w.roles() {
		if _, trusts, _ := strings.Cut(words, ", trusts "); strings.Contains(trusts, firstV) {
			t.Errorf("%s %s", role, words)
		}
	}
	if value, left := w.secret("my-cluster-ca").Annotations["keyturn.dev/distrust"]; left {
		t.Errorf("the request is still there: %s", value)
	}
}

func TestANodeThatJoinsDuringARotationTrustsBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.create(poolResource(w.namespace, "extra", 0, kafkav1.RoleBroker))
	w.settle()
	w.pin()
	w.lag["my-dual-1"] = 3

	w.replace(authorities.Cluster)
	w.once(w.trusts(1, nextV), func() { w.scale("extra", 1) })
	w.once(func() bool { return w.ran["my-extra-3"] }, func() {
		joined, _ := w.serverOf("my-extra-3")
		if trusts := subjects(joined.raft.trust); !slices.Contains(trusts, firstV) || !slices.Contains(trusts, nextV) {
			t.Errorf("the node that joins trusts %v, want both", trusts)
		}
	})
	w.settle()

	w.restartEach()
	w.wantAlone(nextV)
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
}

func TestAChangeOfTheConfigurationIsSerialisedWithARotation(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.once(w.admitted(authorities.Cluster), func() { w.configure("log.retention.hours", "12") })
	w.settle()

	// The check of the world sees every deletion; each restart is used by both.
	w.wantRestarts(1)
	for name := range w.podUIDs() {
		s, running := w.serverOf(name)
		if !running || !strings.Contains(s.started.properties, "log.retention.hours=12") {
			t.Errorf("%s does not run with the configuration", name)
		}
	}
	w.restartEach()
	w.wantAlone(nextV)
}

func TestAVersionChangesDuringARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.olderVersion()
	w.pin()
	w.replace(authorities.Cluster)
	w.once(w.presents(1, nextV), func() { w.patchKafka(map[string]any{"version": "4.3.1"}) })
	w.settle()

	w.restartEach()
	w.wantAlone(nextV)
	if got := w.getKafka().Status.KafkaVersion; got != "4.3.1" {
		t.Errorf("ends with Kafka %s", got)
	}
}

func TestAClientsAuthorityIsReplacedWithoutARestartAndServesOldUsers(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	pods := w.podUIDs()
	w.lag["my-dual-1"] = 3

	w.replace(authorities.Clients)
	w.settle()

	if !maps.Equal(pods, w.podUIDs()) {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
	if len(w.users) != 2 {
		t.Fatalf("%d users, want one of each authority", len(w.users))
	}
	if got := w.caCertificate(authorities.Clients).Subject.CommonName; got != "clients-ca v1" {
		t.Errorf("users are issued certificates of %s", got)
	}
	for _, s := range w.servers {
		if got := slices.Sorted(slices.Values(subjects(s.loaded["mtls-9094"].trust))); !slices.Equal(got, []string{"clients-ca v0", "clients-ca v1"}) {
			t.Errorf("%s trusts users of %v, want both", s.pod, got)
		}
	}
}

func TestAnOldClientsAuthorityGoesAtItsOwnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.ClientsCa.ValidityDays, kafka.Spec.ClientsCa.RenewalDays = new(int32(60)), new(int32(10))
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	w.clock.SetTime(start().Add(20 * authority.Day))
	w.replace(authorities.Clients)
	w.settle()

	w.clock.SetTime(start().Add(61 * authority.Day))
	w.settle()

	if anchors := w.anchors(authorities.Clients); len(anchors) != 1 || anchors["clients-ca v1"] == "" {
		t.Errorf("anchors are %v, want the new one alone", anchors)
	}
	if got := w.bundleOf(authorities.Clients); !slices.Equal(got, []string{"clients-ca v1"}) {
		t.Errorf("ca.crt holds %v", got)
	}
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
}

func TestAnOperatorThatWasAwayForLong(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{
		"into the renewal period":          340 * authority.Day,
		"through the whole of it":          365*authority.Day - 2*time.Hour,
		"until after everything has ended": 370 * authority.Day,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			ended := w.caCertificate(authorities.Cluster)

			w.clock.SetTime(start().Add(away))
			w.startOperator()
			w.settle()

			w.wantValid()
			if renewed := w.caCertificate(authorities.Cluster); renewed.Equal(ended) {
				t.Error("the CA was not renewed")
			}
			for _, s := range w.servers {
				for listener, loaded := range s.loaded {
					if loaded.chain[0].NotAfter.Before(w.clock.Now().Add(authority.Day)) {
						t.Errorf("%s presents a leaf that ends at %s on %s", s.pod, loaded.chain[0].NotAfter, listener)
					}
				}
			}
		})
	}
}
