package chartstest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limited is an operator whose rights a test takes away while it runs.
type Limited struct {
	// Config acts as the operator. Its watches end after a second: a right that is taken away ends none that is open.
	Config *rest.Config

	t       *testing.T
	admin   client.Client
	role    string
	rules   []rbacv1.PolicyRule
	watched sync.Map
	denied  atomic.Bool
}

// Limit installs an operator that has no rights until Allow gives it those of a file of config/install, in all namespaces. The
// client is an administrator's of the API server of config, and name is that of the role.
func Limit(t *testing.T, admin client.Client, config *rest.Config, root, file, name string) *Limited {
	t.Helper()
	l := &Limited{t: t, admin: admin, role: name, Config: rest.CopyConfig(config)}
	for _, object := range Objects(t, root, file) {
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatalf("reading %s %s: %v", object.GetKind(), object.GetName(), err)
		}
		l.rules = append(l.rules, role.Rules...)
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	l.Config.QPS, l.Config.Impersonate = -1, rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	l.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return shortWatches{next: next, of: l} })
	return l
}

// Allow gives the operator all its rights, but for these verbs on a resource.
func (l *Limited) Allow(resource string, without ...string) {
	l.t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := l.admin.Get(l.t.Context(), client.ObjectKey{Name: l.role}, role); err != nil {
		l.t.Fatal(err)
	}
	before := role.DeepCopy()
	role.Rules = nil
	for _, rule := range l.rules {
		for _, named := range rule.Resources {
			one := rule.DeepCopy()
			one.Resources = []string{named}
			if named == resource {
				one.Verbs = slices.DeleteFunc(one.Verbs, func(verb string) bool { return slices.Contains(without, verb) })
			}
			if len(one.Verbs) > 0 {
				role.Rules = append(role.Rules, *one)
			}
		}
	}
	if err := l.admin.Patch(l.t.Context(), role, client.MergeFrom(before)); err != nil {
		l.t.Fatal(err)
	}
}

// Watches reports whether the operator has watched a resource.
func (l *Limited) Watches(resource string) bool {
	_, is := l.watched.Load(resource)
	return is
}

// Pass has time pass for the operator: a little at each call, and a minute once it was denied something since the call before. In real
// time its caches ask less and less often.
func (l *Limited) Pass(clock *clocktesting.FakeClock) {
	clock.Step(100 * time.Millisecond)
	if l.denied.Swap(false) {
		clock.Step(time.Minute)
	}
}

type shortWatches struct {
	next http.RoundTripper
	of   *Limited
}

// RoundTrip implements http.RoundTripper.
func (s shortWatches) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	isWatch := query.Has("watch")
	if isWatch {
		request = request.Clone(request.Context())
		query.Set("timeoutSeconds", "1")
		request.URL.RawQuery = query.Encode()
	}
	response, err := s.next.RoundTrip(request)
	switch {
	case err != nil:
	case response.StatusCode == http.StatusForbidden:
		s.of.denied.Store(true)
	case isWatch && response.StatusCode == http.StatusOK:
		s.of.watched.Store(request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:], true)
	}
	return response, err
}
