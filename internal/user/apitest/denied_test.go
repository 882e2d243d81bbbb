package apitest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/user/controller"
)

// limited is a user operator whose rights the test grants and takes away.
type limited struct {
	*world
	*chartstest.Limited

	time     *clocktesting.FakeClock
	operator *controller.Reconciler
}

// newLimited has all its rights, and looks after users of their own and of a cert-manager that none of them uses.
func newLimited(t *testing.T) *limited {
	t.Helper()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	l := &limited{
		world: w, time: clocktesting.NewFakeClock(time.Now()),
		Limited: chartstest.Limit(t, w.person, apiServer, filepath.Join("..", "..", ".."), chartstest.UserOperator, "limited-"+w.namespace),
	}
	l.Allow("")
	w.rights, w.observer = l.Config, watches.NewObserver(l.time)
	l.operator = w.run(&traffic{})
	return l
}

// pass lets time pass for the observer until something holds, a little with each look.
func (l *limited) pass(what string, holds func() bool) {
	l.t.Helper()
	l.until(what, func() bool {
		l.Pass(l.time)
		return holds()
	})
}

// warns reports whether a user has exactly this status beside the warning about a resource.
func (l *limited) warns(user string, beside condition.Type, resource string) bool {
	l.t.Helper()
	status := l.status(user)
	reason, message, _ := reasonOf(status, condition.Warning)
	_, _, holds := reasonOf(status, beside)
	return holds && len(status.Conditions) == 2 && reason == "WatchDenied" && strings.Contains(message, "Grant its ServiceAccount the verbs list and watch on "+resource)
}

// versions are those of the users.
func (l *limited) versions() string {
	l.t.Helper()
	var users kafkav1.KafkaUserList
	if err := l.person.List(l.t.Context(), &users, client.InNamespace(l.namespace)); err != nil {
		l.t.Fatal(err)
	}
	var versions strings.Builder
	for i := range users.Items {
		versions.WriteString(users.Items[i].Name + " " + users.Items[i].ResourceVersion + " ")
	}
	return versions.String()
}

func (l *limited) isAlone(user string, kind condition.Type) bool {
	l.t.Helper()
	status := l.status(user)
	_, _, holds := reasonOf(status, kind)
	return holds && len(status.Conditions) == 1
}

func (l *limited) reconcileBoth() {
	l.t.Helper()
	for _, name := range []string{"alice", "bob"} {
		request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: l.namespace, Name: name}}
		if _, err := l.operator.Reconcile(l.t.Context(), request); err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestAWatchThatIsDeniedIsAWarningOfEachUser(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"kafkausers", "kafkas", "secrets"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			l.user("alice", tls())
			l.user("bob", tls())
			l.pass("the users are ready", func() bool { return l.isAlone("alice", condition.Ready) && l.isAlone("bob", condition.Ready) })
			l.pause("bob", `"true"`)
			l.pass("one is paused", func() bool { return l.isAlone("bob", condition.ReconciliationPaused) })
			l.pass("it is watched", func() bool { return l.Watches(resource) })
			l.Allow(resource, "list", "watch")
			l.pass("the users warn of it", func() bool {
				return l.warns("alice", condition.Ready, resource) && l.warns("bob", condition.ReconciliationPaused, resource)
			})
			l.reconcileBoth() // the operator's own reconcile, which has written the warning, may not have ended yet
			version, before := l.versions(), fmt.Sprintf("%+v", l.status("alice"))
			l.reconcileBoth()
			if after := l.versions(); after != version {
				t.Errorf("users are written again: %s, %s before\n%s\n%+v", after, version, before, l.status("alice"))
			}
			l.Allow("")
			l.pass("the warnings are gone", func() bool {
				return l.isAlone("alice", condition.Ready) && l.isAlone("bob", condition.ReconciliationPaused)
			})
		})
	}
}

func TestAUserThatTheOperatorMayNotReadIsStillRenewed(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
	l.user("alice", tls())
	l.pass("the user is ready", func() bool { return l.isAlone("alice", condition.Ready) && l.Watches("kafkausers") })
	l.Allow("kafkausers", "get", "list", "watch")
	l.pass("the user warns of it", func() bool { return l.warns("alice", condition.Ready, "kafkausers") })
	first := l.leaf("alice")
	l.newCA("clients-ca v1")
	l.until("the certificate is reissued", func() bool { return !l.leaf("alice").Equal(first) })
}
