package apitest

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/pki"
)

// soon is how long a change may take to be in a Secret.
const soon = 2 * time.Second

// within fails when a change takes too long to be seen.
func (w *world) within(what string, change func(), seen func() bool) {
	w.t.Helper()
	begun := time.Now()
	change()
	w.await(what, seen)
	if took := time.Since(begun); took > soon {
		w.t.Errorf("%s: it took %s, at most %s are promised", what, took, soon)
	}
}

func (w *world) holds(key, value string) func() bool {
	return func() bool { return w.data("my-app")[key] == value }
}

// What a change costs: the KafkaAccess, the Kafka, the user, two Secrets that are copied from, and the one that is written.
const readsOfAPass = 6

func TestAChangeIsInTheSecretSoonAndAtRestNothingIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.runOperator()
	w.access("my-user", nil)
	w.awaitReason("Bound")
	w.atRest()
	for name, test := range map[string]struct {
		change     func()
		key, value string
	}{
		"the cluster CA": {func() { w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second")) }, "ssl.truststore.crt", caOf("second")},
		"the user":       {func() { w.updateSecret("my-user", "user.crt", "renewed") }, "ssl.keystore.crt", "renewed"},
		"the address": {func() {
			kafka := &kafkav1.Kafka{}
			w.get("my-cluster", kafka)
			kafka.Status.Listeners[1].BootstrapServers = "elsewhere:9093"
			w.report(kafka)
		}, "bootstrap.servers", "elsewhere:9093"},
	} {
		reads, writes := w.traffic.since(0, 0)
		w.within(name, test.change, w.holds(test.key, test.value))
		w.atRest()
		if reads, writes = w.traffic.since(reads, writes); reads > readsOfAPass || writes != 1 {
			t.Errorf("%s: %d reads and %d writes, want at most %d and 1", name, reads, writes, readsOfAPass)
		}
	}
	reads, writes := w.traffic.since(0, 0)
	w.progress()
	w.atRest()
	if reads, writes = w.traffic.since(reads, writes); reads != 0 || writes != 0 {
		t.Errorf("the progress of a rotation costs %d reads and %d writes", reads, writes)
	}
}

// atRest waits until nothing has been read or written for a while.
func (w *world) atRest() {
	w.t.Helper()
	reads, writes := w.traffic.since(0, 0)
	since := time.Now()
	w.await("nothing is read or written", func() bool {
		if r, wr := w.traffic.since(reads, writes); r > 0 || wr > 0 {
			reads, writes = reads+r, writes+wr
			since = time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// progress reports what no Secret depends on.
func (w *world) progress() {
	w.t.Helper()
	for n := range 5 {
		kafka := &kafkav1.Kafka{}
		w.get("my-cluster", kafka)
		kafka.Status.OperatorLastSuccessfulVersion = fmt.Sprintf("0.1.%d", n)
		w.report(kafka)
	}
}

func TestConsentIsFollowedSoonInBothDirections(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	apps.runOperator(kafkas.namespace)
	apps.access("my-user", across(kafkas))
	apps.awaitReason("NamespaceNotAllowed")
	kafkas.allow(&kafkav1.Kafka{}, "my-cluster", apps.namespace)
	apps.await("the user is asked", func() bool { return apps.readyMessage("KafkaUser my-user") })
	apps.within("the Secret is there", func() { kafkas.allow(&kafkav1.KafkaUser{}, "my-user", "*") }, func() bool { return apps.reason("my-app") == "Bound" })
	apps.within("the CA of another namespace is followed", func() { kafkas.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second")) },
		apps.holds("ssl.truststore.crt", caOf("second")))
	apps.within("the Secret is gone", func() { kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "") }, func() bool { return apps.data("my-app") == nil })
	apps.await("the binding is gone", func() bool { return apps.status().Binding == nil })
}

// Certificates of people carry no label, and are beside the Kafka.
func TestAChangedChainOfAnotherNamespaceIsFollowedSoon(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	kafkas.allowAll("*")
	first, chain := chainOf(t, "first")
	next, nextChain := chainOf(t, "next")
	apps.runOperator(kafkas.namespace)
	apps.access("", func(a *accessv1alpha1.KafkaAccess) {
		custom(nil)(a)
		across(kafkas)(a)
	})
	apps.awaitReason("MissingKubernetesResource")
	apps.within("the chain is there", func() {
		kafkas.secret("chain", "", map[string]string{"crt": string(pki.EncodeBundle(chain...)), "key": "private"})
	}, apps.holds("ssl.truststore.crt", string(pki.EncodeBundle(first))))
	apps.within("the chain is another", func() { kafkas.updateSecret("chain", "crt", string(pki.EncodeBundle(nextChain...))) },
		apps.holds("ssl.truststore.crt", string(pki.EncodeBundle(next))))
}

func TestANamespaceThatIsNotWatchedIsNamed(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	kafkas.allowAll("*")
	apps.runOperator()
	apps.access("my-user", across(kafkas))
	apps.awaitReason("NamespaceNotAllowed")
	if !apps.readyMessage("The access operator does not watch namespace " + kafkas.namespace + ".") {
		t.Errorf("the status is %+v", apps.status())
	}
	apps.atRest()
}

func TestTheYoungerGetsTheSecretWhenTheOlderNoLongerAsksForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.realCluster()
	w.access("none", nil)
	w.untilTheNextSecond()
	w.proposedAccess("my-app", "my-user", nil)
	w.runOperator()
	reason := func() string {
		access := &kafkav1beta2.KafkaAccess{}
		w.get("my-app", access)
		if condition := meta.FindStatusCondition(access.Status.Conditions, "Ready"); condition != nil {
			return condition.Reason
		}
		return ""
	}
	w.await("the younger one says so", func() bool { return reason() == "ForeignObject" && w.reason("my-app") == "MissingKubernetesResource" })
	w.within("the younger one has the Secret", func() {
		w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "elsewhere" })
	}, func() bool { return reason() == "Bound" })
}

// Both forms follow what they refer to beside each other.
func TestTheProposedFormFollowsSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca, _ := w.realCluster()
	w.runOperator()
	w.proposedAccess("my-app", "my-user", nil)
	w.await("there is a Secret", func() bool { return w.data("my-app") != nil })
	root, _ := chainOf(t, "next")
	both := string(pki.EncodeBundle(ca, root))
	w.within("the CA is followed", func() { w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", both) }, w.holds("ssl.truststore.crt", both))
}
