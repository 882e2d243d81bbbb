package apitest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// gauge is the value of a metric without labels.
func (w *world) gauge(name string) float64 {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(w.figures); err != nil {
		w.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}

// brings is a user whose password is in a Secret of its own.
func brings() kafkav1.KafkaUserSpec {
	spec := scram()
	spec.Authentication.Password = &kafkav1.UserPassword{ValueFrom: kafkav1.UserPasswordSource{
		SecretKeyRef: kafkav1.SecretKeyReference{Name: "brought", Key: "mine"},
	}}
	return spec
}

// bring creates the Secret that a password comes from, or replaces it; it has no label.
func (w *world) bring(password string) {
	w.t.Helper()
	w.remove("brought")
	w.create(&corev1.Secret{ObjectMeta: w.meta("brought"), Data: map[string][]byte{"mine": []byte(password)}})
}

// The Secret may hold the only copy of the password: what is advised works when it is followed.
func TestAPasswordUnderTheUsersOwnNameGetsAdviceThatWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: w.meta("alice"), Data: map[string][]byte{"mine": []byte("only copy")}})
	spec := brings()
	spec.Authentication.Password.ValueFrom.SecretKeyRef.Name = "alice"
	w.user("alice", spec)
	w.reconcile("alice")
	w.wantSaid("alice", condition.NotReady, "ForeignObject", "Create another Secret with the password, name it in spec.authentication.password, and then delete Secret alice")

	w.bring("only copy")
	w.change("alice", brings())
	w.remove("alice")
	w.reconcile("alice")
	if got := w.kafka.Password("alice"); got != "only copy" || len(w.stored("alice").Data["sasl.jaas.config"]) == 0 {
		t.Errorf("the password in Kafka is %q", got)
	}
	w.wantUserReady("alice")
}

func TestAPasswordFollowsItsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bring("first")
	w.user("alice", brings())
	w.reconcile("alice")
	if w.kafka.Password("alice") != "first" {
		t.Error("Kafka does not accept the password that was brought")
	}
	w.bring("second")
	acts := len(w.kafka.Acts())
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
	if got := w.kafka.Acts()[acts:]; w.kafka.Password("alice") != "second" || len(got) != 1 {
		t.Errorf("the changes are %v, want one that sets the second password", got)
	}
	w.quiet("alice")
}

func TestAnEditedPasswordOfTheUsersSecretIsSetInKafka(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", scram())
	w.reconcile("alice")
	secret := w.stored("alice")
	secret.Data["password"] = []byte("edited")
	if err := w.person.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
	if w.kafka.Password("alice") != "edited" {
		t.Error("Kafka does not accept the edited password")
	}
	w.remove("alice")
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
}

func TestBadInputOfUsersInKafkaIsACondition(t *testing.T) {
	t.Parallel()
	kafka := func(change func(*kafkav1.KafkaSpec)) func(w *world) {
		return func(w *world) {
			object := &kafkav1.Kafka{ObjectMeta: w.meta(cluster)}
			change(&object.Spec)
			w.deleteKafka()
			w.create(object)
		}
	}
	scramListener := kafkav1.Listener{
		Name: "scram", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true,
		Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationSCRAM},
	}
	zero := scram()
	zero.Quotas = &kafkav1.UserQuotas{ProducerByteRate: new(int32(0))}
	for name, c := range map[string]struct {
		prepare func(w *world)
		spec    kafkav1.KafkaUserSpec
		kind    condition.Type
		reason  string
		says    []string
	}{
		"the Kafka authorizes nobody": {
			prepare: func(w *world) {
				w.kafka.Authorize(false)
				kafka(func(spec *kafkav1.KafkaSpec) { spec.Kafka.Listeners = []kafkav1.Listener{scramListener} })(w)
			},
			spec: reads(scram()), kind: condition.NotReady, reason: "AuthorizationDisabled", says: []string{"spec.kafka.authorization.type"},
		},
		"the Kafka does not authorize yet": {
			prepare: func(w *world) { w.kafka.Authorize(false) },
			spec:    reads(scram()), kind: condition.NotReady, reason: "AuthorizationDisabled", says: []string{"restarted"},
		},
		"no listener asks for a password": {
			prepare: kafka(func(spec *kafkav1.KafkaSpec) {
				spec.Kafka.Listeners = []kafkav1.Listener{{Name: "tls", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true}}
			}),
			spec: scram(), kind: condition.Warning, reason: "MissingListener", says: []string{"spec.kafka.listeners", "scram-sha-512"},
		},
		"the Secret of the password is missing": {
			prepare: func(*world) {}, spec: brings(), kind: condition.NotReady, reason: "MissingPassword", says: []string{"Secret brought", "mine"},
		},
		"the key of the password is missing": {
			prepare: func(w *world) { w.put("brought", map[string][]byte{"other": []byte("x")}) },
			spec:    brings(), kind: condition.NotReady, reason: "MissingPassword", says: []string{"Secret brought", "mine"},
		},
		"the password ends with a line break": {
			prepare: func(w *world) { w.bring("x\n") },
			spec:    brings(), kind: condition.NotReady, reason: "InvalidPassword", says: []string{"Secret brought", "line break"},
		},
		"a quota of zero": {
			prepare: func(*world) {}, spec: zero, kind: condition.NotReady, reason: "RejectedByKafka", says: []string{"spec.quotas"},
		},
		"the Secret is another's": {
			prepare: func(w *world) { w.put("alice", map[string][]byte{"password": []byte("x")}) },
			spec:    scram(), kind: condition.NotReady, reason: "ForeignObject", says: []string{"Secret alice"},
		},
		"the cluster is missing": {
			prepare: (*world).deleteKafka, spec: reads(scram()), kind: condition.NotReady, reason: "MissingKafka", says: []string{"Kafka my-cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.prepare(w)
			w.user("alice", c.spec)
			w.reconcile("alice")
			reason, message, is := reasonOf(w.status("alice"), c.kind)
			if !is || reason != c.reason {
				t.Fatalf("%s: %t, because of %q: %s", c.kind, is, reason, message)
			}
			for _, text := range c.says {
				if !strings.Contains(message, text) {
					t.Errorf("the message %q does not name %s", message, text)
				}
			}
			w.quiet("alice")
		})
	}
}

func TestAPasswordThatIsGoneLeavesTheOneInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bring("first")
	w.user("alice", brings())
	w.reconcile("alice")
	w.remove("brought")
	w.reconcile("alice")
	if w.kafka.Password("alice") != "first" || string(w.stored("alice").Data["password"]) != "first" {
		t.Error("the password in use was changed")
	}
	w.bring("first")
	w.reconcile("alice")
	w.ready("alice")
}

func TestWhatKafkaRejectsDoesNotKeepBackTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := reads(scram())
	spec.Quotas.ConsumerByteRate = new(int32(0))
	w.user("alice", spec)
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
	if len(w.kafka.Held("alice").ACLs) != 1 {
		t.Error("the ACLs are missing")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.change("alice", reads(scram()))
	w.reconcile("alice")
	w.ready("alice")
}

func TestACLsFollowOnceKafkaAuthorizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.Authorize(false)
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.acceptsTheSecret("alice")
	w.kafka.Authorize(true)
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile("alice")
	w.ready("alice")
	if len(w.kafka.Held("alice").ACLs) != 1 {
		t.Error("the ACLs are missing")
	}
}

// lagging is a cache that still shows a user as it was.
type lagging struct {
	client.Client

	shown *kafkav1.KafkaUser
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if user, is := object.(*kafkav1.KafkaUser); is && l.shown != nil {
		l.shown.DeepCopyInto(user)
		return nil
	}
	return l.Client.Get(ctx, key, object, options...)
}

func TestAStatusIsWrittenAlthoughTheCacheShowsItFromBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cache := &lagging{Client: w.asOperator}
	w.asOperator = cache
	w.restart()
	w.user("alice", reads(brings()))
	w.bring("first")
	w.reconcile("alice")
	w.wantUserReady("alice")
	cache.shown = w.read("alice")

	w.remove("brought")
	w.reconcile("alice")
	w.wantSaid("alice", condition.NotReady, "MissingPassword", "Secret brought does not exist")
	w.bring("second")
	w.reconcile("alice")

	w.wantUserReady("alice")
}
