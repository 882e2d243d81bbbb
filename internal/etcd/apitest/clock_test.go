package apitest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestNothingIsIssuedWhileTheClockIsWrong(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": 700 * time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			w.bring()
			w.createBackupClaim()
			before := w.pod(first).Annotations[contract.PeerPlane.CertificateAnnotation()]
			w.clock.SetTime(noon().Add(ahead))
			w.ahead = ahead
			w.access(w.namespace, "")
			w.backUp(0)
			w.wantAccess(w.namespace, "ClockDiffers")
			w.backsUp("ClockDiffers")
			if result := w.reconcile(); result.RequeueAfter == 0 {
				t.Error("the clock is never looked at again")
			}
			if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != "ClockDiffers" || !w.told("ClockDiffers") {
				t.Errorf("Ready is %+v, want ClockDiffers and an event", ready)
			}
			if w.pod(first).Annotations[contract.PeerPlane.CertificateAnnotation()] != before || w.hasBackupPod() {
				t.Error("a certificate was issued, or a backup was begun")
			}
			err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: application}, &corev1.Secret{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the application got a Secret: %v", err)
			}
			w.writer.Sent, w.ahead = 0, ahead+time.Minute
			w.reconcile()
			w.grants(w.namespace)
			w.backsUp("ClockDiffers")
			if w.writer.Sent > 0 {
				t.Errorf("%d writes although nothing has changed, the last was %s", w.writer.Sent, w.writer.Last)
			}
			w.clock.SetTime(noon().Add(time.Hour))
			w.ahead = 0
			w.reconcile()
			if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != "MembersReady" {
				t.Errorf("with the right clock Ready is %+v", ready)
			}
			w.wantAccess(w.namespace, "SecretReady")
			w.backsUp("BackupRunning")
		})
	}
}

func TestWhatAClockThatWasAheadHasIssuedIsIssuedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.clock.SetTime(noon().Add(365 * 24 * time.Hour)) // the operator does not know
	w.access(w.namespace, "")
	w.reconcile()
	w.grants(w.namespace)
	w.clock.SetTime(noon().Add(time.Minute))
	w.reconcile()
	w.wantAccess(w.namespace, "SecretReady")
	w.clientLeaf(w.namespace)
	for _, plane := range contract.Planes() {
		if err := pki.CheckValidAt(w.chain(w.pod(first), plane)[0], w.clock.Now()); err != nil {
			t.Errorf("the %s certificate of the member: %v", plane, err)
		}
	}
	operator, err := pki.FirstCertificate(w.secret(w.private, w.namespace+".my-cluster-operator").Data["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.CheckValidAt(operator, w.clock.Now()); err != nil {
		t.Errorf("the certificate of the operator: %v", err)
	}
	w.atRest()
}
