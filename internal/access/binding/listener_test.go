package binding_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

func kafkaWith(listeners ...kafkav1.Listener) *kafkav1.Kafka {
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster"}}
	kafka.Spec.Kafka.Listeners = listeners
	return kafka
}

func listener(name string, kind kafkav1.ListenerType, tls bool, authentication kafkav1.ListenerAuthenticationType) kafkav1.Listener {
	l := kafkav1.Listener{Name: name, Type: kind, TLS: tls, Port: 9093}
	if authentication != "" {
		l.Authentication = &kafkav1.ListenerAuthentication{Type: authentication}
	}
	return l
}

func users() []binding.User {
	return []binding.User{binding.Anonymous, binding.Unauthenticated, binding.TLS, binding.TLSExternal, binding.SCRAM}
}

// problemOf is the reason of a problem, empty when there is none.
func problemOf(t *testing.T, err error) binding.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	problem, is := errors.AsType[*binding.NotReadyError](err)
	if !is {
		t.Fatalf("%v has no reason", err)
	}
	if message := problem.Error(); strings.Count(message, ". ") < 2 || !strings.HasSuffix(message, ".") {
		t.Errorf("message %q does not have the form problem. consequence. remedy.", message)
	}
	return problem.Reason
}

// accepted are the users that a listener accepts, by tls and authentication. Its type has no say.
func accepted() map[string][]binding.User {
	const ok, no = true, false
	table := map[string]struct{ anonymous, unauthenticated, tls, external, scram bool }{
		"tls: false, authentication ":              {ok, no, no, no, no},
		"tls: false, authentication tls":           {ok, ok, no, no, no},
		"tls: false, authentication scram-sha-512": {ok, ok, no, no, ok},
		"tls: false, authentication custom":        {ok, ok, no, no, no},
		"tls: false, authentication oauth":         {ok, ok, no, no, no},
		"tls: true, authentication ":               {ok, no, no, no, no},
		"tls: true, authentication tls":            {ok, ok, ok, ok, no},
		"tls: true, authentication scram-sha-512":  {ok, ok, no, no, ok},
		"tls: true, authentication custom":         {ok, ok, no, no, no},
		"tls: true, authentication oauth":          {ok, ok, no, no, no},
	}
	accepted := map[string][]binding.User{}
	for name, row := range table {
		for i, is := range []bool{row.anonymous, row.unauthenticated, row.tls, row.external, row.scram} {
			if is {
				accepted[name] = append(accepted[name], users()[i])
			}
		}
	}
	return accepted
}

func listenerTypes() []kafkav1.ListenerType {
	return []kafkav1.ListenerType{
		kafkav1.ListenerInternal, kafkav1.ListenerRoute, kafkav1.ListenerTLSRoute, kafkav1.ListenerLoadBalancer,
		kafkav1.ListenerNodePort, kafkav1.ListenerIngress, kafkav1.ListenerClusterIP,
	}
}

func listenerAuthentications() []kafkav1.ListenerAuthenticationType {
	return []kafkav1.ListenerAuthenticationType{
		"", kafkav1.AuthenticationTLS, kafkav1.AuthenticationSCRAM, kafkav1.AuthenticationCustom, kafkav1.AuthenticationOAuth,
	}
}

// Every type, tls, authentication and user, with the listener named, alone, and beside one that no KafkaUser can authenticate to.
func TestAListenerIsChosenForTheUsersThatItAccepts(t *testing.T) {
	t.Parallel()
	table := accepted()
	for _, kind := range listenerTypes() {
		for _, tls := range []bool{false, true} {
			for _, authentication := range listenerAuthentications() {
				config := fmt.Sprintf("tls: %t, authentication %s", tls, authentication)
				if _, listed := table[config]; !listed {
					t.Fatalf("the table lacks %s", config)
				}
				for _, user := range users() {
					chooses(t, listener("only", kind, tls, authentication), user, slices.Contains(table[config], user))
				}
			}
		}
	}
}

// chooses tries one listener for one user in each of the ways in which it can come to be chosen.
func chooses(t *testing.T, only kafkav1.Listener, user binding.User, accepted bool) {
	t.Helper()
	deaf := listener("deaf", kafkav1.ListenerInternal, true, "none-that-a-user-has")
	for _, test := range []struct {
		how       string
		listeners []kafkav1.Listener
		named     string
	}{
		{"named", []kafkav1.Listener{only, deaf}, "only"},
		{"alone", []kafkav1.Listener{only}, ""},
		{"among two", []kafkav1.Listener{deaf, only}, ""},
	} {
		isAmong := test.how == "among two"
		if isAmong && user == binding.Anonymous {
			continue // either will do
		}
		want := binding.Reason("")
		switch {
		case isAmong && user == binding.Unauthenticated:
			want = binding.ListenerRequired
		case !accepted:
			want = binding.IncompatibleListener
		}
		got, err := binding.ChooseListener(kafkaWith(test.listeners...), test.named, user)
		if reason := problemOf(t, err); reason != want || (got.Name == "only") != (want == "") {
			t.Errorf("%s, %s, tls: %t, authentication %+v, %s: listener %q with reason %q, want reason %q",
				test.how, only.Type, only.TLS, only.Authentication, user, got.Name, reason, want)
		}
	}
}

func TestOfSeveralListenersTheBestIsChosen(t *testing.T) {
	t.Parallel()
	const internal, external = kafkav1.ListenerInternal, kafkav1.ListenerLoadBalancer
	const none, tls, scram = kafkav1.ListenerAuthenticationType(""), kafkav1.AuthenticationTLS, kafkav1.AuthenticationSCRAM
	for name, test := range map[string]struct {
		listeners []kafkav1.Listener
		named     string
		user      binding.User
		want      string
		reason    binding.Reason
	}{
		"there is none": {user: binding.TLS, reason: binding.NoListener},
		"the named one is taken although another comes first": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", external, true, tls)},
			named:     "b", user: binding.TLS, want: "b",
		},
		"the named one does not exist": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", external, true, tls)},
			named:     "c", user: binding.TLS, reason: binding.ListenerNotFound,
		},
		"the named one does not accept the user although another does": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", internal, true, scram)},
			named:     "a", user: binding.SCRAM, reason: binding.IncompatibleListener,
		},
		"the one that accepts the user is taken": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", external, true, scram)},
			user:      binding.SCRAM, want: "b",
		},
		"an internal one is taken before an external one that comes first": {
			listeners: []kafkav1.Listener{listener("a", external, true, tls), listener("b", internal, true, tls)},
			user:      binding.TLSExternal, want: "b",
		},
		"the first by name is taken, not the first in the list": {
			listeners: []kafkav1.Listener{listener("c", internal, true, scram), listener("b", internal, false, scram), listener("a", external, true, scram)},
			user:      binding.SCRAM, want: "b",
		},
		"tls does not matter to a user with a password": {
			listeners: []kafkav1.Listener{listener("b", internal, true, scram), listener("a", internal, false, scram)},
			user:      binding.SCRAM, want: "a",
		},
		"a certificate needs tls": {
			listeners: []kafkav1.Listener{listener("a", internal, false, tls), listener("b", internal, true, tls)},
			user:      binding.TLS, want: "b",
		},
		"without a user any listener will do": {
			listeners: []kafkav1.Listener{listener("b", internal, false, none), listener("a", internal, true, scram)},
			user:      binding.Anonymous, want: "a",
		},
		"a user without authentication gets the only one": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls)},
			user:      binding.Unauthenticated, want: "a",
		},
		"a user without authentication has to name one of several": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", internal, true, scram)},
			user:      binding.Unauthenticated, reason: binding.ListenerRequired,
		},
		"a user without authentication names one": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls), listener("b", internal, true, scram)},
			named:     "b", user: binding.Unauthenticated, want: "b",
		},
		"none accepts the user": {
			listeners: []kafkav1.Listener{listener("a", internal, false, none), listener("b", external, true, tls)},
			user:      binding.SCRAM, reason: binding.IncompatibleListener,
		},
		"a type of user that does not exist yet": {
			listeners: []kafkav1.Listener{listener("a", internal, true, tls)},
			user:      "token", reason: binding.IncompatibleListener,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprint(test.listeners)
			got, err := binding.ChooseListener(kafkaWith(test.listeners...), test.named, test.user)
			if reason := problemOf(t, err); reason != test.reason || got.Name != test.want {
				t.Errorf("listener %q with reason %q, want %q with %q (%v)", got.Name, reason, test.want, test.reason, err)
			}
			if after := fmt.Sprint(test.listeners); before != after {
				t.Errorf("the Kafka's listeners became %s", after)
			}
		})
	}
}

func TestAnIncompatibleListenerIsReportedWithThoseThatWouldDo(t *testing.T) {
	t.Parallel()
	kafka := kafkaWith(
		listener("b", kafkav1.ListenerInternal, true, kafkav1.AuthenticationSCRAM),
		listener("a", kafkav1.ListenerInternal, true, kafkav1.AuthenticationSCRAM),
		listener("c", kafkav1.ListenerInternal, true, kafkav1.AuthenticationTLS))
	_, err := binding.ChooseListener(kafka, "c", binding.SCRAM)
	const want = "Listener c of Kafka my-cluster does not accept a KafkaUser with scram-sha-512 authentication. " +
		"The Secret is not written. Name one of these listeners in spec.kafka.listener: a, b."
	if err == nil || err.Error() != want {
		t.Errorf("the message is %v, want %s", err, want)
	}
}
