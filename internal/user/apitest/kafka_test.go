package apitest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// reads lets a user read a topic, and limits it.
func reads(spec kafkav1.KafkaUserSpec) kafkav1.KafkaUserSpec {
	spec.Authorization = &kafkav1.UserAuthorization{Type: kafkav1.AuthorizationSimple, ACLs: []kafkav1.ACLRule{{
		Resource: kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: "orders"}, Operations: []kafkav1.ACLOperation{"Read"},
	}}}
	spec.Quotas = &kafkav1.UserQuotas{ProducerByteRate: new(int32(1024))}
	return spec
}

func scram() kafkav1.KafkaUserSpec {
	return kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserSCRAM}}
}

func readsOrders() principal.ACL {
	return principal.ACL{
		Type: principal.Topic, Name: "orders", Pattern: principal.Literal, Host: "*", Operation: principal.Read, Permission: principal.Allow,
	}
}

// readsInKafka is what Kafka holds for a user that reads.
func readsInKafka() principal.Held {
	return principal.Held{ACLs: []principal.ACL{readsOrders()}, Quotas: map[principal.Quota]float64{principal.ProducerByteRate: 1024}}
}

func withPassword(held principal.Held) principal.Held {
	held.HasPassword = true
	return held
}

// holds fails the test unless Kafka holds this for both names of a user.
func (w *world) holds(name string, plain, certificate principal.Held) {
	w.t.Helper()
	for username, want := range map[string]principal.Held{name: plain, "CN=" + name: certificate} {
		if diff := cmp.Diff(want, w.kafka.Held(username), cmpopts.EquateEmpty()); diff != "" {
			w.t.Errorf("Kafka holds something else for %s (-want +got):\n%s", username, diff)
		}
	}
}

// acceptsTheSecret fails the test unless Kafka accepts the password of the user's Secret.
func (w *world) acceptsTheSecret(name string) {
	w.t.Helper()
	data := w.stored(name).Data
	password := string(data["password"])
	if password == "" || w.kafka.Password(name) != password {
		w.t.Errorf("Kafka does not accept the password of the Secret of %s", name)
	}
	if line := string(data["sasl.jaas.config"]); !strings.Contains(line, `password="`+password+`";`) {
		w.t.Error("sasl.jaas.config does not have the password")
	}
}

func (w *world) read(name string) *kafkav1.KafkaUser {
	w.t.Helper()
	user := &kafkav1.KafkaUser{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, user); err != nil {
		w.t.Fatal(err)
	}
	return user
}

// change replaces the spec of a user.
func (w *world) change(name string, spec kafkav1.KafkaUserSpec) {
	w.t.Helper()
	user := w.read(name)
	user.Spec = spec
	if err := w.person.Update(w.t.Context(), user); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deleteUser(name string) {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta(name)}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deleteKafka() {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &kafkav1.Kafka{ObjectMeta: w.meta(cluster)}); err != nil {
		w.t.Fatal(err)
	}
}

// deleteNamespace begins to delete the namespace: nothing can be created in it any more.
func (w *world) deleteNamespace() {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}); err != nil {
		w.t.Fatal(err)
	}
}

// isGone reports whether a user has been let go.
func (w *world) isGone(name string) bool {
	w.t.Helper()
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &kafkav1.KafkaUser{})
	return apierrors.IsNotFound(err)
}

func (w *world) isKept(name string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.read(name).Finalizers, func(finalizer string) bool { return strings.HasSuffix(finalizer, "keyturn.dev/kafka-user") })
}

func (w *world) ready(name string) {
	w.t.Helper()
	if _, _, isReady := reasonOf(w.status(name), condition.Ready); !isReady {
		w.t.Errorf("user %s is not ready: %+v", name, w.status(name))
	}
}

func TestKafkaHoldsWhatAUserAsksFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec               kafkav1.KafkaUserSpec
		plain, certificate principal.Held
		username, secret   string
		isKept             bool
	}{
		"a certificate alone":                {spec: tls(), username: "CN=alice", secret: "alice"},
		"a certificate, ACLs and quotas":     {spec: reads(tls()), certificate: readsInKafka(), username: "CN=alice", secret: "alice", isKept: true},
		"a password, ACLs and quotas":        {spec: reads(scram()), plain: withPassword(readsInKafka()), username: "alice", secret: "alice", isKept: true},
		"a password alone":                   {spec: scram(), plain: principal.Held{HasPassword: true}, username: "alice", secret: "alice", isKept: true},
		"a certificate from outside":         {spec: reads(external()), certificate: readsInKafka(), username: "CN=alice", isKept: true},
		"ACLs and quotas, no authentication": {spec: reads(kafkav1.KafkaUserSpec{}), plain: readsInKafka(), username: "alice", isKept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", c.spec)
			w.reconcile("alice")
			w.holds("alice", c.plain, c.certificate)
			w.ready("alice")
			if status := w.status("alice"); status.Username != c.username || status.Secret != c.secret {
				t.Errorf("the status names user %q with Secret %q, want %q with %q", status.Username, status.Secret, c.username, c.secret)
			}
			if c.plain.HasPassword {
				w.acceptsTheSecret("alice")
			}
			if w.isKept("alice") != c.isKept {
				t.Errorf("the finalizer is set: %t, want %t", !c.isKept, c.isKept)
			}
			if got := w.kafka.Rounds(); (got > 0) != c.isKept {
				t.Errorf("Kafka was asked %d times", got)
			}
		})
	}
}

func external() kafkav1.KafkaUserSpec {
	return kafkav1.KafkaUserSpec{Authentication: &kafkav1.UserAuthentication{Type: kafkav1.UserTLSExternal}}
}

func TestWhereTheOperatorCrashesKafkaEndsAsTheUserSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after      kafkav1.KafkaUserSpec
		plain, certificate principal.Held
		isKept             bool
	}{
		"a new user with a password":       {after: reads(scram()), plain: withPassword(readsInKafka()), isKept: true},
		"a new user with a certificate":    {after: reads(tls()), certificate: readsInKafka(), isKept: true},
		"a password becomes a certificate": {before: reads(scram()), after: reads(tls()), certificate: readsInKafka(), isKept: true},
		"a certificate becomes a password": {before: reads(tls()), after: reads(scram()), plain: withPassword(readsInKafka()), isKept: true},
		"all rights are taken away":        {before: reads(scram()), after: tls()},
		"only the password stays":          {before: reads(scram()), after: scram(), plain: principal.Held{HasPassword: true}, isKept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for crashAt, crashed := 1, true; crashed; crashAt++ {
				w := newWorld(t)
				if c.before.Authentication != nil {
					w.user("alice", c.before)
					w.reconcile("alice")
					w.change("alice", c.after)
				} else {
					w.user("alice", c.after)
				}
				w.restart()
				w.writer.CrashAt = crashAt
				_, err := w.try("alice")
				crashed = errors.Is(err, kubetest.ErrCrash)
				if !w.isKept("alice") && len(w.kafka.Names()) > 0 {
					t.Errorf("crash at write %d: Kafka holds something for %v and the user has no finalizer", crashAt, w.kafka.Names())
				}
				w.restart()
				w.reconcile("alice")
				w.holds("alice", c.plain, c.certificate)
				w.ready("alice")
				if c.plain.HasPassword {
					w.acceptsTheSecret("alice")
				}
				if w.isKept("alice") != c.isKept {
					t.Errorf("crash at write %d: the finalizer is set: %t", crashAt, !c.isKept)
				}
				w.quiet("alice")
			}
		})
	}
}

// quiet fails the test if another reconcile of this process writes.
func (w *world) quiet(name string) {
	w.t.Helper()
	w.writer.Sent = 0
	w.reconcile(name)
	if w.writer.Sent > 0 {
		w.t.Errorf("%d writes although nothing has changed", w.writer.Sent)
	}
}

func TestADeletedUserIsGoneFromKafkaWhereverTheOperatorCrashes(t *testing.T) {
	t.Parallel()
	for crashAt, crashed := 1, true; crashed; crashAt++ {
		w := newWorld(t)
		w.kafka.Hold("bob", withPassword(readsInKafka()))
		w.user("alice", reads(scram()))
		w.reconcile("alice")
		w.deleteUser("alice")
		w.restart()
		w.writer.CrashAt = crashAt
		_, err := w.try("alice")
		crashed = errors.Is(err, kubetest.ErrCrash)
		if w.isGone("alice") && slices.Contains(w.kafka.Names(), "alice") {
			t.Errorf("crash at write %d: the user is gone and Kafka still holds something for it", crashAt)
		}
		w.restart()
		w.reconcile("alice")
		if !w.isGone("alice") {
			t.Errorf("crash at write %d: the user is still there", crashAt)
		}
		if got := w.kafka.Names(); !slices.Equal(got, []string{"bob"}) {
			t.Errorf("crash at write %d: Kafka holds something for %v, want bob alone", crashAt, got)
		}
		if crashAt > 20 {
			t.Fatal("the deletion does not end")
		}
	}
}

func TestWhatIsNewComesBeforeWhatGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.change("alice", reads(tls()))
	before := len(w.kafka.Acts())
	w.reconcile("alice")
	want := []string{
		"create ACLs CN=alice", "alter quotas (1 set, 0 unset) CN=alice",
		"revoke password alice", "delete ACLs alice", "alter quotas (0 set, 1 unset) alice",
	}
	if diff := cmp.Diff(want, w.kafka.Acts()[before:]); diff != "" {
		t.Errorf("changes in Kafka (-want +got):\n%s", diff)
	}
	if _, has := w.stored("alice").Data["password"]; has {
		t.Error("the Secret still has the password")
	}
}

func TestAtRestNothingIsWrittenAndKafkaIsAskedOnceAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"alice", "bob", "carol"}
	for i, spec := range []kafkav1.KafkaUserSpec{reads(scram()), reads(tls()), tls()} {
		w.user(names[i], spec)
		w.reconcile(names[i])
	}
	w.writer.Sent = 0
	rounds := w.kafka.Rounds()
	const minutes = 10
	for range minutes * 6 {
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
		for _, name := range names {
			if wait := w.reconcile(name).RequeueAfter; name != "carol" && (wait <= 0 || wait > time.Minute) {
				t.Fatalf("user %s is looked at again in %s, want a minute at most", name, wait)
			}
		}
	}
	if w.writer.Sent > 0 {
		t.Errorf("%d writes at rest", w.writer.Sent)
	}
	if got := w.kafka.Rounds() - rounds; got != minutes {
		t.Errorf("Kafka was asked %d times in %d minutes", got, minutes)
	}
}

func TestAfterAStartPasswordsAreSetAgainOnceAndInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var names []string
	for letter := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		names = append(names, letter)
		w.user(letter, scram())
		w.reconcile(letter)
	}
	upserts := func() int { return len(w.kafka.Acts()) }
	if upserts() != len(names) {
		t.Fatalf("%d changes for %d new users", upserts(), len(names))
	}
	w.restart()
	all := func() {
		for _, name := range names {
			w.reconcile(name)
		}
	}
	all()
	if got := upserts() - len(names); got != 1 {
		t.Errorf("%d passwords are set again at once, want one", got)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	all()
	if got := upserts() - len(names); got != 21 {
		t.Errorf("%d passwords are set again within a second, want 21", got)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	all()
	all()
	if got := upserts() - len(names); got != len(names) {
		t.Errorf("%d passwords are set again, want each of %d once", got, len(names))
	}
	for _, name := range names {
		w.acceptsTheSecret(name)
	}
}

func TestWhatOthersChangeInKafkaIsPutRightInTheNextRound(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]principal.Held{
		"everything is gone":   {},
		"the password is gone": readsInKafka(),
		"there is more": withPassword(principal.Held{
			ACLs: principal.Sorted([]principal.ACL{
				readsOrders(), {Type: principal.Topic, Name: "*", Pattern: principal.Literal, Host: "*", Operation: principal.All, Permission: principal.Allow},
			}),
			Quotas: map[principal.Quota]float64{principal.ProducerByteRate: 1, principal.RequestPercentage: 1},
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", reads(scram()))
			w.reconcile("alice")
			w.kafka.Hold("alice", held)
			w.kafka.Hold("bob", held)
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.reconcile("alice")
			w.holds("alice", withPassword(readsInKafka()), principal.Held{})
			w.acceptsTheSecret("alice")
			if diff := cmp.Diff(held, w.kafka.Held("bob"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("another user was changed (-want +got):\n%s", diff)
			}
			w.quiet("alice")
		})
	}
}

func TestACertificateIsIssuedWhileKafkaDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure error
		reason  string
		says    string
	}{
		"no broker answers":       {&admin.UnreachableError{Address: "my-cluster-kafka-bootstrap:9091", Err: errors.New("connection refused")}, "KafkaUnreachable", "port 9091"},
		"it is not authorized":    {&admin.RefusedError{Address: "a", Err: kerr.ClusterAuthorizationFailed}, "NotAuthorized", "super.users"},
		"its certificate is none": {&admin.RefusedError{Address: "a", Err: errors.New("unknown certificate authority")}, "KafkaUnreachable", "unknown certificate authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kafka.Fail(c.failure)
			w.user("alice", reads(tls()))
			result := w.reconcile("alice")
			w.leaf("alice")
			reason, message, is := reasonOf(w.status("alice"), condition.NotReady)
			if !is || reason != c.reason || !strings.Contains(message, c.says) {
				t.Errorf("not ready: %t, because of %q: %s", is, reason, message)
			}
			if result.RequeueAfter <= 0 || result.RequeueAfter > 2*time.Second {
				t.Errorf("it is tried again in %s", result.RequeueAfter)
			}
			w.quiet("alice")
			for range 10 {
				w.clock.SetTime(w.clock.Now().Add(w.reconcile("alice").RequeueAfter))
			}
			if rounds := w.kafka.Rounds(); rounds < 9 || w.writer.Sent > 0 {
				t.Errorf("%d attempts and %d writes", rounds, w.writer.Sent)
			}
			w.kafka.Fail(nil)
			w.clock.SetTime(w.clock.Now().Add(15 * time.Second))
			w.reconcile("alice")
			w.ready("alice")
			w.holds("alice", principal.Held{}, readsInKafka())
		})
	}
}

func TestAUserThatIsCurrentStaysReadyWhileKafkaDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(tls()))
	w.reconcile("alice")
	w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: errors.New("connection refused")})
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.quiet("alice")
	w.ready("alice")
}

func TestADeletionWaitsForKafkaAndSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: errors.New("connection refused")})
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.deleteUser("alice")
	if wait := w.reconcile("alice").RequeueAfter; wait <= 0 || wait > 15*time.Second {
		t.Errorf("it is tried again in %s", wait)
	}
	if reason, message, _ := reasonOf(w.status("alice"), condition.NotReady); reason != "KafkaUnreachable" || !strings.Contains(message, "finalizer my-cluster.keyturn.dev/kafka-user") {
		t.Errorf("the condition is %s: %s", reason, message)
	}
	w.kafka.Fail(nil)
	w.clock.SetTime(w.clock.Now().Add(15 * time.Second))
	w.reconcile("alice")
	if !w.isGone("alice") || len(w.kafka.Names()) > 0 {
		t.Errorf("the user is gone: %t, and Kafka holds something for %v", w.isGone("alice"), w.kafka.Names())
	}
}

// A namespace is deleted as all of its objects are, in any order.
func TestADeletedKafkaKeepsNoUserInWhateverOrder(t *testing.T) {
	t.Parallel()
	down := func(w *world) { w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: errors.New("no such host")}) }
	for name, steps := range map[string][]func(w *world){
		"the Kafka, then the user":                     {(*world).deleteKafka, down, func(w *world) { w.deleteUser("alice") }},
		"the Kafka, a look at the user, then the user": {(*world).deleteKafka, down, func(w *world) { w.reconcile("alice") }, func(w *world) { w.deleteUser("alice") }},
		"the user, then the Kafka":                     {down, func(w *world) { w.deleteUser("alice") }, (*world).deleteKafka},
		"the user, a look at it, then the Kafka":       {down, func(w *world) { w.deleteUser("alice") }, func(w *world) { w.reconcile("alice") }, (*world).deleteKafka},
		"the namespace, a look at the user, then all in it": {
			(*world).deleteNamespace, down, func(w *world) { w.reconcile("alice") }, func(w *world) { w.remove("alice") },
			func(w *world) { w.deleteUser("alice") }, (*world).deleteKafka,
		},
		"the user and its Secrets, then the Kafka": {
			down, func(w *world) { w.deleteUser("alice") }, func(w *world) { w.remove("alice") },
			func(w *world) { w.remove("my-cluster-clients-ca") }, func(w *world) { w.remove("my-cluster-clients-ca-cert") }, (*world).deleteKafka,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, restarts := range []bool{false, true} {
				w := newWorld(t)
				w.user("alice", reads(scram()))
				w.reconcile("alice")
				w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
				for _, step := range steps {
					step(w)
				}
				if restarts {
					w.restart()
				}
				w.reconcile("alice")
				if !w.isGone("alice") {
					t.Errorf("after a restart (%t) the user is still there: %+v", restarts, w.read("alice"))
				}
			}
		})
	}
}

func TestAUserOfADeletedKafkaIsLetGoAndOfTheNextOneKeptAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	kafka := &kafkav1.Kafka{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, kafka); err != nil {
		t.Fatal(err)
	}
	w.deleteKafka()
	w.reconcile("alice")
	if w.isKept("alice") {
		t.Error("the finalizer is still there without a Kafka")
	}
	if reason, _, _ := reasonOf(w.status("alice"), condition.NotReady); reason != "MissingKafka" {
		t.Errorf("the reason is %s, want MissingKafka", reason)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	if wait := w.reconcile("alice").RequeueAfter; wait > 0 {
		t.Errorf("without a Kafka the user is looked at again in %s", wait)
	}
	w.kafka.Hold("alice", principal.Held{})
	w.create(&kafkav1.Kafka{ObjectMeta: w.meta(cluster), Spec: kafka.Spec})
	w.reconcile("alice")
	w.ready("alice")
	w.holds("alice", withPassword(readsInKafka()), principal.Held{})
	if !w.isKept("alice") {
		t.Error("the finalizer is missing")
	}
}

func TestUsersThatAreInKafkaAloneAreCountedAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	others := []string{"CN=alice,O=else", `q"uote=ü`, "zoe"}
	for _, name := range others {
		w.kafka.Hold(name, withPassword(readsInKafka()))
	}
	w.user("alice", reads(tls()))
	w.reconcile("alice")
	for _, name := range others {
		if !cmp.Equal(withPassword(readsInKafka()), w.kafka.Held(name)) {
			t.Errorf("%s was changed", name)
		}
	}
	if got := w.gauge("keyturn_user_unmanaged"); got != 3 {
		t.Errorf("%v users are counted, want 3", got)
	}
	w.oversee()
	if users := w.progress(); users == nil || users.Unmanaged == nil || *users.Unmanaged != 3 || !cmp.Equal(others, users.UnmanagedNames) {
		t.Errorf("the status of the Kafka has %+v, want the names of all three", users)
	}
}

func TestAConnectionThatFailsFromAnotherPortIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(tls()))
	for i, port := range []string{"41000", "41001", "41002"} {
		w.kafka.Fail(&admin.UnreachableError{Address: "a:9091", Err: errors.New("read tcp 10.0.0.1:" + port + "->10.0.0.2:9091: connection reset by peer")})
		w.clock.SetTime(w.clock.Now().Add(15 * time.Second))
		w.restart()
		w.reconcile("alice")
		if i > 0 && w.writer.Sent > 0 {
			t.Errorf("%d writes for the same failure", w.writer.Sent)
		}
	}
	if _, message, _ := reasonOf(w.status("alice"), condition.NotReady); !strings.Contains(message, "10.0.0.2:9091: connection reset") {
		t.Errorf("the message is %q", message)
	}
}

func TestAPasswordIsSetOnceAKafkaWithoutAuthorizationAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.Authorize(false)
	w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: errors.New("connection refused")})
	w.user("alice", scram())
	w.reconcile("alice")
	w.kafka.Fail(nil)
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
	w.ready("alice")
}

func TestChangesThatFailAreTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.FailChanges(&admin.UnreachableError{Address: "a", Err: errors.New("no controller")})
	w.user("alice", reads(tls()))
	begun := w.clock.Now()
	for range 10 {
		w.clock.SetTime(w.clock.Now().Add(w.reconcile("alice").RequeueAfter))
	}
	if took := w.clock.Now().Sub(begun); took < time.Minute {
		t.Errorf("ten attempts take %s, want more than a minute", took)
	}
	w.kafka.FailChanges(nil)
	w.reconcile("alice")
	w.holds("alice", principal.Held{}, readsInKafka())
	w.ready("alice")
}

func TestAUserThatMovesToAnotherClusterLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"to another cluster": `"other"`, "to none": "null"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.clock.SetTime(time.Now())
			w.newCA("clients-ca v0")
			w.run(&traffic{})
			w.user("alice", reads(scram()))
			w.until("Kafka holds the user", func() bool { return slices.Equal(w.kafka.Names(), []string{"alice"}) })
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"strimzi.io/cluster": `+label+`}}}`))
			if err := w.person.Patch(t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta("alice")}, patch); err != nil {
				t.Fatal(err)
			}
			w.until("Kafka holds nothing and the finalizer is gone", func() bool { return len(w.kafka.Names()) == 0 && !w.isKept("alice") })
		})
	}
}

func TestABrokerThatLagsBehindAChangeDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("bob", reads(tls()))
	w.reconcile("bob")
	w.clock.SetTime(w.clock.Now().Add(58 * time.Second))
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.kafka.Hold("alice", principal.Held{})
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	w.reconcile("bob")
	w.quiet("alice")
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile("alice")
	w.holds("alice", withPassword(readsInKafka()), principal.Held{})
}
