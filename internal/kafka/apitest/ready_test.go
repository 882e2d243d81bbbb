package apitest

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authority"
)

// Ready is said of a cluster that serves, and goes on serving by itself.

func (w *world) wantNotReady(reason string, words ...string) {
	w.t.Helper()
	w.wantReason(condition.NotReady, reason, words...)
	if has(w.getKafka(), condition.Ready) {
		w.t.Error("it is ready all the same")
	}
}

func (w *world) wantReady() {
	w.t.Helper()
	if kafka := w.getKafka(); !has(kafka, condition.Ready) || has(kafka, condition.NotReady) {
		w.t.Errorf("conditions are %+v, want Ready", kafka.Status.Conditions)
	}
}

func TestAClusterIsNotReadyWhileANodePresentsAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	// New certificates are loaded by restarts only, and nothing may be restarted.
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()
	w.kafka.Fail(errors.New("nobody is there"))
	w.clock.SetTime(nearTheEnd())
	w.run(5)
	w.wantReady()
	w.clock.SetTime(start().Add(366 * authority.Day))
	w.run(5)

	w.wantNotReady("CertificatesExpired", "my-dual-1", "replication-9091", "being loaded")
}

func TestAClusterIsNotReadyOnceAListenersOwnCertificateHasExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	w.wantReady()
	w.nobodyReads()
	leaf := w.first(w.secret("custom").Data["tls.crt"])
	w.clock.SetTime(leaf.NotAfter.Add(time.Hour))
	w.settle()

	w.wantNotReady("CertificatesExpired", "tls-9093", "Secret custom")
}

func TestAClusterIsNotReadyWhileItsRotationCannotGoOnByItself(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.silent["my-dual-1"] = true
	w.replace(authority.ClusterCA)
	w.run(8)
	w.wantReady()
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.run(3)

	w.wantNotReady("RotationBlocked", "cluster-ca", "my-dual-1")

	delete(w.silent, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
	w.wantReady()
}
