package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// rekey replaces the clients CA by one with another key; nodes trust the old one until it expires.
func (w *world) rekey(name string) pki.Authority {
	w.t.Helper()
	old := w.stored("my-cluster-clients-ca-cert").Data["ca.crt"]
	ca := w.newCA(name)
	w.put("my-cluster-clients-ca-cert", map[string][]byte{
		"ca.crt": pki.EncodeBundle(ca.Certificate()), "ca-2027-05-01T12-00-00Z.crt": old,
	})
	return ca
}

// oversee looks at all users together once.
func (w *world) oversee() ctrl.Result {
	w.t.Helper()
	result, err := w.operator.Oversee(w.t.Context(), ctrl.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// reconcileAll reconciles users as an event of the clients CA does.
func (w *world) reconcileAll(names []string) {
	w.t.Helper()
	for _, name := range names {
		w.reconcile(name)
	}
}

func (w *world) progress() *kafkav1.UsersStatus {
	w.t.Helper()
	kafka := &kafkav1.Kafka{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, kafka); err != nil {
		w.t.Fatal(err)
	}
	return kafka.Status.Users
}

// issuedBy are the users with a certificate of a CA.
func (w *world) issuedBy(ca pki.Authority, names []string) []string {
	w.t.Helper()
	var issued []string
	for _, name := range names {
		if pki.IssuedBy(w.leaf(name), ca.Certificate()) {
			issued = append(issued, name)
		}
	}
	return issued
}

// tlsUsers creates users whose certificates expire in the opposite order of their names.
func (w *world) tlsUsers(count int) []string {
	w.t.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("user-%02d", i)
		spec := tls()
		validity, renewal := int32(100-i), int32(1)
		spec.Authentication.ValidityDays, spec.Authentication.RenewalDays = &validity, &renewal
		w.user(names[i], spec)
	}
	w.reconcileAll(names)
	return names
}

func TestAReplacedClientsCAReissuesUsersAtARateAndThoseThatExpireFirstBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := w.tlsUsers(25)
	w.oversee()
	ca := w.rekey("clients-ca v1")
	w.reconcileAll(names)
	if issued := w.issuedBy(ca, names); len(issued) > 0 {
		t.Fatalf("%v did not wait for their turn", issued)
	}
	for second, want := range []int{10, 20, 25} {
		w.clock.SetTime(noon().Add(time.Duration(second+10) * time.Second))
		w.oversee()
		w.oversee()
		w.reconcileAll(names)
		issued := w.issuedBy(ca, names)
		if len(issued) != want || issued[0] != names[len(names)-want] {
			t.Errorf("after second %d these have a certificate of the new CA: %v, want the last %d", second, issued, want)
		}
	}
	w.clock.SetTime(noon().Add(time.Minute))
	if wait := w.oversee().RequeueAfter; wait != 0 {
		t.Errorf("the next look at all users is in %s although none waits", wait)
	}
	if users := w.progress(); users == nil || users.Total != 25 || users.Ready != 25 || users.Reissued != 25 {
		t.Errorf("the progress is %+v, want 25 users that are reissued", users)
	}
	w.writer.Sent = 0
	w.reconcileAll(names)
	w.oversee()
	if w.writer.Sent > 0 {
		t.Errorf("%d writes although nothing has changed", w.writer.Sent)
	}
	next := w.rekey("clients-ca v2")
	w.reconcileAll(names)
	if issued := w.issuedBy(next, names); len(issued) > 0 {
		t.Errorf("%v did not wait for their turn after a second replacement", issued)
	}
}

func TestProgressIsInTheStatusOfTheKafkaWhileUsersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := w.tlsUsers(12)
	w.oversee()
	if users := w.progress(); users == nil || users.Total != 12 || users.Reissued != 12 || users.Oldest == nil {
		t.Fatalf("before, the progress is %+v, want 12 users", users)
	}
	w.rekey("clients-ca v1")
	w.clock.SetTime(noon().Add(10 * time.Second))
	w.reconcileAll(names)
	w.oversee()
	if users := w.progress(); users.Reissued != 0 || users.Ready != 12 {
		t.Errorf("the progress is %+v, want 12 ready users that wait", users)
	}
	w.reconcileAll(names)
	if wait := w.oversee().RequeueAfter; wait != time.Second {
		t.Errorf("the next look at all users is in %s, want a second", wait)
	}
	w.clock.SetTime(noon().Add(15 * time.Second))
	w.oversee()
	if users := w.progress(); users.Reissued != 10 {
		t.Errorf("the progress is %+v, want 10 reissued users", users)
	}
}

func TestAnotherProcessGoesOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := w.tlsUsers(15)
	ca := w.rekey("clients-ca v1")
	w.reconcileAll(names)
	w.oversee()
	w.reconcileAll(names[5:9])
	w.restart()
	w.reconcileAll(names[:14])
	if w.oversee(); len(w.issuedBy(ca, names)) != 4 {
		t.Fatalf("%v have a certificate of the new CA, want the 4 that were reissued before", w.issuedBy(ca, names))
	}
	w.reconcileAll(names)
	if issued := w.issuedBy(ca, names); len(issued) != 4 {
		t.Errorf("users were reissued before all were looked at: %v", issued)
	}
	before := w.leaf(names[5])
	w.oversee()
	w.reconcileAll(names)
	if issued := w.issuedBy(ca, names); len(issued) != 14 || !w.leaf(names[5]).Equal(before) {
		t.Errorf("%v have a certificate of the new CA, want 10 others and no one twice", issued)
	}
}

func TestAUserThatCannotBeLookedAtKeepsTheOthersForAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := w.tlsUsers(3)
	ca := w.rekey("clients-ca v1")
	w.reconcileAll(names[1:])
	if wait := w.oversee().RequeueAfter; wait != time.Minute {
		t.Errorf("all users are looked at again in %s, want a minute", wait)
	}
	w.clock.SetTime(noon().Add(time.Minute))
	w.oversee()
	w.reconcileAll(names[1:])
	if issued := w.issuedBy(ca, names); len(issued) != 2 {
		t.Errorf("%v have a certificate of the new CA, want 2", issued)
	}
}

func TestUsersDoNotWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world) pki.Authority{
		"when a person distrusts the old CA": func(w *world) pki.Authority {
			ca := w.rekey("clients-ca v1")
			secret := w.stored("my-cluster-clients-ca")
			secret.Annotations = map[string]string{"keyturn.dev/distrust": "now"}
			if err := w.person.Update(w.t.Context(), secret); err != nil {
				w.t.Fatal(err)
			}
			return ca
		},
		"when nodes do not trust the old CA": func(w *world) pki.Authority { return w.newCA("clients-ca v1") },
		"when a person asks for a certificate": func(w *world) pki.Authority {
			ca := w.rekey("clients-ca v1")
			for _, name := range []string{"user-00", "user-01"} {
				w.askForRenewal(name, "true")
			}
			return ca
		},
		"when the Secret is lost": func(w *world) pki.Authority {
			ca := w.rekey("clients-ca v1")
			w.remove("user-00")
			w.remove("user-01")
			return ca
		},
		"when the certificate has expired": func(w *world) pki.Authority {
			ca := w.rekey("clients-ca v1")
			w.clock.SetTime(noon().Add(101 * authority.Day))
			return ca
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			names := w.tlsUsers(2)
			ca := change(w)
			w.reconcileAll(names)
			if issued := w.issuedBy(ca, names); len(issued) != 2 {
				t.Errorf("%v have a certificate of the new CA, want both", issued)
			}
		})
	}
}

func TestARenewedClientsCAOnlyChangesCaCrt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	before := w.stored("alice").Data
	key, err := pki.ParsePrivateKey(w.stored("my-cluster-clients-ca").Data["ca.key"])
	if err != nil {
		t.Fatal(err)
	}
	old, err := pki.FirstCertificate(before["ca.crt"])
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := pki.RenewCA(old, key, 730*authority.Day, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.put("my-cluster-clients-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(renewed.Certificate())})
	w.reconcile("alice")
	after := w.stored("alice").Data
	for _, entry := range []string{"user.crt", "user.key", "user.p12", "user.password"} {
		if !bytes.Equal(before[entry], after[entry]) {
			t.Errorf("%s has changed", entry)
		}
	}
	if !bytes.Equal(after["ca.crt"], pki.EncodeBundle(renewed.Certificate())) {
		t.Error("ca.crt is not the renewed certificate")
	}
	w.atRest("alice")
}

func TestAShorterValidityReissuesWhenItIsTheUsersTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	first := w.leaf("alice")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"authentication": {"validityDays": 30, "renewalDays": 10}}}`))
	if err := w.person.Patch(t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta("alice")}, patch); err != nil {
		t.Fatal(err)
	}
	w.reconcile("alice")
	w.oversee()
	w.reconcile("alice")
	if second := w.leaf("alice"); second.Equal(first) || !second.NotAfter.Equal(noon().Add(30*authority.Day)) {
		t.Errorf("the certificate is valid until %s, want 30 days", second.NotAfter)
	}
	second := w.leaf("alice")
	w.clock.SetTime(noon().Add(-authority.Day))
	w.restart()
	w.reconcile("alice")
	w.oversee()
	w.reconcile("alice")
	if !w.leaf("alice").Equal(second) {
		t.Error("a clock that was set back has reissued the certificate")
	}
}

// The clock of this test is the real one.
func TestTheRunningOperatorReissuesAllUsersAndReportsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	w.run(&traffic{})
	names := make([]string, 15)
	for i := range names {
		names[i] = fmt.Sprintf("user-%02d", i)
		w.user(names[i], tls())
	}
	all := func() bool { users := w.progress(); return users != nil && users.Ready == 15 && users.Reissued == 15 }
	w.until("the progress counts 15 users", all)
	ca := w.rekey("clients-ca v1")
	w.until("all users have a certificate of the new CA", func() bool { return len(w.issuedBy(ca, names)) == 15 })
	w.until("the progress counts 15 users again", all)
}

// nodesTrust has the cluster operator publish what nodes trust for clients.
func (w *world) nodesTrust(anchors ...authority.Anchor) {
	w.t.Helper()
	w.put("my-cluster-clients-ca-trusted-certs", authority.TrustedCerts(authority.Stored{}, anchors))
}

func TestAUserKeepsItsCertificateUntilAllNodesTrustTheNextCA(t *testing.T) {
	t.Parallel()
	for name, isKept := range map[string]bool{"the CA before is kept": true, "the CA before is taken out": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			old := w.newCA("own v0")
			w.nodesTrust(authority.Anchor{Certificate: old.Certificate(), State: trust.InUseAll})
			w.user("alice", tls())
			w.reconcile("alice")
			w.oversee()
			before := w.leaf("alice")
			next := w.rekey("own v1")
			if !isKept {
				w.put("my-cluster-clients-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(next.Certificate())})
			}
			for _, state := range []trust.State{trust.Untrusted, trust.PhaseOut} {
				w.nodesTrust(
					authority.Anchor{Certificate: old.Certificate(), State: trust.InUseAll},
					authority.Anchor{Certificate: next.Certificate(), State: state},
				)
				w.takeTurns("alice")
				if !w.leaf("alice").Equal(before) {
					t.Fatalf("with the next CA %s the user has a certificate of it", state)
				}
				if users := w.progress(); users.Reissued != 0 || users.Ready != 1 {
					t.Errorf("the Kafka counts %+v, want one user that is ready and waits", users)
				}
				w.atRest("alice")
			}
			w.nodesTrust(
				authority.Anchor{Certificate: old.Certificate(), State: trust.InUseAll},
				authority.Anchor{Certificate: next.Certificate(), State: trust.TrustedUnused},
			)
			w.takeTurns("alice")
			if !pki.IssuedBy(w.leaf("alice"), next.Certificate()) {
				t.Error("all nodes trust the next CA, and the user has no certificate of it")
			}
		})
	}
}

// takeTurns looks at a user, and lets it have its turn if it waits for one.
func (w *world) takeTurns(name string) {
	w.t.Helper()
	for range 3 {
		w.reconcile(name)
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
		w.oversee()
	}
	w.reconcile(name)
}

// refusing is an API server whose definition of Kafka lacks status.users.
type refusing struct {
	client.Client

	writes int
}

func (r *refusing) Status() client.SubResourceWriter {
	return refusingStatus{r.Client.Status(), r}
}

type refusingStatus struct {
	client.SubResourceWriter

	of *refusing
}

func (s refusingStatus) Apply(ctx context.Context, intent runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if text, err := json.Marshal(intent); err != nil || bytes.Contains(text, []byte(`"users":`)) {
		s.of.writes++
		return errors.Join(errors.New(".status.users: field not declared in schema"), err)
	}
	return s.SubResourceWriter.Apply(ctx, intent, options...)
}

func TestAProgressThatIsRefusedKeepsNobodyWaitingAndIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := &refusing{Client: w.asOperator}
	w.asOperator = server
	w.restart()
	w.user("alice", tls())
	w.reconcile("alice")

	waits := []time.Duration{w.oversee().RequeueAfter}
	for range 2 {
		w.oversee()
		w.clock.SetTime(w.clock.Now().Add(waits[len(waits)-1]))
		waits = append(waits, w.oversee().RequeueAfter)
	}

	if want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}; !slices.Equal(waits, want) || server.writes != len(want) {
		t.Errorf("it is tried %d times, again after %v, want %v", server.writes, waits, want)
	}
}
