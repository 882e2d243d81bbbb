package apitest

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// An old clients CA is kept until it expires, whether a node trusts it or not.

func TestAnOldClientsCAThatNoListenerUsesIsReportedAsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*world){
		"it is renewed":              func(w *world) { w.renew(authorities.Clients) },
		"its key is replaced":        func(w *world) { w.replace(authorities.Clients) },
		"both are asked for at once": (*world).renewAndReplaceClients,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := withoutTLSListener(t)
			old := w.caCertificate(authorities.Clients)

			ask(w)
			w.settle()

			w.wantKept("clients-ca v0", "not trusted by any node, and is kept until it expires at "+old.NotAfter.UTC().Format(time.RFC3339))

			w.nobodyReads()
			w.users = nil
			w.daysLater(340, 367)
			w.wantReason(clientsTrust, "Trusted", "is the only CA")
		})
	}
}

func TestAnOldClientsCAThatNoListenerUsesIsRemovedWhenItIsDistrusted(t *testing.T) {
	t.Parallel()
	w := withoutTLSListener(t)
	w.renewAndReplaceClients()
	w.settle()

	w.distrustNow(authorities.Clients)
	w.settle()

	w.wantReason(clientsTrust, "Trusted", "clients-ca v1", "is the only CA")
}

// withoutTLSListener is a world whose cluster has no listener that uses TLS.
func withoutTLSListener(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	kafka := kafkaResource(w.namespace)
	kafka.Spec.Kafka.Listeners = []kafkav1.Listener{{Name: "plain", Port: 9092, Type: kafkav1.ListenerInternal}}
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	return w
}

func TestACertificateOfAReplacedClientsCAThatNoNodeWasGivenIsReportedAsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	w.daysLater(200)
	first := w.caCertificate(authorities.Clients)

	w.renewAndReplaceClients()
	w.settle()

	w.wantKept("stays trusted until it expires at "+first.NotAfter.UTC().Format(time.RFC3339), "not trusted by any node")

	w.users = nil
	w.daysLater(340, 366)
	w.wantKept("clients-ca v0", "not trusted by any node, and is kept until it expires at ")
	w.wantClientsCAs("clients-ca v1")

	w.daysLater(540, 567)
	w.wantReason(clientsTrust, "Trusted", "clients-ca v1", "is the only CA")
}

func (w *world) renewAndReplaceClients() {
	w.t.Helper()
	w.renew(authorities.Clients)
	w.replace(authorities.Clients)
}

// daysLater lets everybody work on each of these days.
func (w *world) daysLater(days ...int) {
	w.t.Helper()
	for _, day := range days {
		w.clock.SetTime(start().Add(time.Duration(day) * authority.Day))
		w.settle()
	}
}

// wantKept checks that the rotation of the clients CA is over but for an expiry.
func (w *world) wantKept(words ...string) {
	w.t.Helper()
	w.wantReason(clientsTrust, "WaitingForExpiry", words...)
	over := slices.ContainsFunc(w.getKafka().Status.Conditions, func(c condition.Condition) bool {
		return c.Type == clientsTrust && c.Status == condition.True
	})
	if !over {
		w.t.Errorf("%s is not True: %+v", clientsTrust, w.getKafka().Status.Conditions)
	}
}
