package apitest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/user/controller"
)

// issuedIn counts the certificates that a process has issued.
func issuedIn(t *testing.T, figures *controller.Metrics) int {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(figures); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0.0
	for _, family := range families {
		if family.GetName() == "keyturn_user_certificates_issued_total" {
			for _, metric := range family.GetMetric() {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return int(count)
}

// elect has processes share the Lease of the user operator.
func (w *world) elect(options *ctrl.Options) {
	lease, renew, retry := 2*time.Minute, time.Minute, 200*time.Millisecond
	options.LeaderElection, options.LeaderElectionNamespace, options.LeaderElectionID = true, w.namespace, cluster+"-user-operator"
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &renew, &retry
	options.LeaderElectionReleaseOnCancel = true
}

// certificates are those of all users with a Secret, by the names of the Secrets.
func (w *world) certificates() map[string][]byte {
	w.t.Helper()
	var secrets corev1.SecretList
	if err := w.person.List(w.t.Context(), &secrets, client.InNamespace(w.namespace), client.MatchingLabels{"strimzi.io/kind": "KafkaUser"}); err != nil {
		w.t.Fatal(err)
	}
	found := map[string][]byte{}
	for i := range secrets.Items {
		found[secrets.Items[i].Name] = secrets.Items[i].Data["user.crt"]
	}
	return found
}

// The clock of this test is the real one.
func TestTwoOperatorsIssueNoUserTwice(t *testing.T) {
	t.Parallel()
	const users = 200
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	_, end := w.start(&traffic{}, w.elect)
	first := w.figures
	w.start(&traffic{}, w.elect)
	second := w.figures
	var left map[string][]byte
	for i := range users {
		w.user(fmt.Sprintf("user-%03d", i), tls())
		if i == users/2 {
			w.until("some users have a certificate", func() bool { return len(w.certificates()) > 0 })
			if issuedIn(t, first) > 0 && issuedIn(t, second) > 0 {
				t.Error("both processes issue certificates at the same time")
			}
			end()
			left = w.certificates()
		}
	}
	w.until("all users have a certificate", func() bool { return len(w.certificates()) == users })
	w.until("the progress counts all users", func() bool {
		progress := w.progress()
		return progress != nil && progress.Ready == users && progress.Reissued == users
	})
	now := w.certificates()
	for user, certificate := range left {
		if !bytes.Equal(now[user], certificate) {
			t.Errorf("%s had a certificate of the first process and was issued another", user)
		}
	}
	// One that was stored while the first process ended may not have been counted.
	if issued := issuedIn(t, first) + issuedIn(t, second); issued > users {
		t.Errorf("%d users with %d certificates of before were issued %d", users, len(left), issued)
	}
}

func TestAProcessThatCrashesWhenItReissuesDoesNotReissueTwice(t *testing.T) {
	t.Parallel()
	const own = 2 // what was created is owned by apply first
	for crashAt := 1; crashAt <= own+1; crashAt++ {
		w := newWorld(t)
		w.user("alice", tls())
		w.reconcile("alice")
		before := w.stored("alice").Data
		w.oversee()
		ca := w.rekey("clients-ca v1")
		w.reconcile("alice")
		w.oversee()
		w.writer.CrashAt = w.writer.Sent + crashAt
		_, err := w.try("alice")
		if crashAt == 1 && err == nil {
			t.Fatal("the operator did not crash at the write of the certificate")
		}
		crashed := w.stored("alice").Data
		if isWritten := !bytes.Equal(before["user.crt"], crashed["user.crt"]); isWritten != (crashAt > own) {
			t.Fatalf("the certificate was written before a crash at write %d: %t", crashAt, isWritten)
		}
		w.restart()
		w.reconcile("alice")
		w.oversee()
		w.reconcile("alice")
		if issued := w.issuedBy(ca, []string{"alice"}); len(issued) != 1 {
			t.Errorf("after a crash at write %d the user has no certificate of the new CA", crashAt)
		}
		if crashAt > own && !bytes.Equal(crashed["user.crt"], w.stored("alice").Data["user.crt"]) {
			t.Error("the certificate was issued twice")
		}
		w.atRest("alice")
	}
}
