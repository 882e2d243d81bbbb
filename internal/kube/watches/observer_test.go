package watches_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/kube/watches"
)

const (
	kafkas  = "/apis/kafka.strimzi.io/v1/kafkas"
	watched = kafkas + "?watch=true&resourceVersion=7"
	listed  = kafkas + "?limit=500&resourceVersion=0"
)

// server answers each request as the test says, for an Observer that asks what time it is.
type server struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	observer *watches.Observer
	code     int
}

func newServer(t *testing.T) *server {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	return &server{t: t, clock: clock, observer: watches.NewObserver(clock, "cert-manager.io")}
}

var errOffline = errors.New("connection refused")

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	if s.code == 0 {
		return nil, errOffline
	}
	return &http.Response{StatusCode: s.code, Body: http.NoBody}, nil
}

// answers sends requests that are answered with the code; 0 is an API server that cannot be reached.
func (s *server) answers(code int, paths ...string) {
	s.t.Helper()
	s.code = code
	for _, path := range paths {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://server"+path, http.NoBody)
		if err != nil {
			s.t.Fatal(err)
		}
		response, err := s.observer.Transport(s).RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if isOffline := errors.Is(err, errOffline); isOffline != (code == 0) {
			s.t.Fatalf("the answer did not pass: %v", err)
		}
	}
}

// lasts sends the requests again for a while, as caches do.
func (s *server) lasts(time time.Duration, code int, paths ...string) {
	s.t.Helper()
	const steps = 6
	for range steps {
		s.answers(code, paths...)
		s.clock.Step(time / steps)
	}
	s.answers(code, paths...)
}

func (s *server) ready() string {
	if err := s.observer.Ready(nil); err != nil {
		return err.Error()
	}
	return ""
}

func TestAWatchThatIsDeniedForAMinuteIsNamed(t *testing.T) {
	t.Parallel()
	const grant = "since 2023-11-14T22:13:20Z: grant its ServiceAccount the verbs list and watch on "
	const role = ", as the chart's Role or ClusterRole of this operator does"
	for name, test := range map[string]struct {
		code int
		path string
		want string
	}{
		"a watch of all namespaces": {
			code: http.StatusForbidden, path: watched,
			want: "the API server has not allowed this operator to watch kafkas.kafka.strimzi.io in all namespaces (403 Forbidden) " +
				grant + "kafkas.kafka.strimzi.io in all namespaces" + role,
		},
		"a list of one, behind a proxy": {
			code: http.StatusForbidden, path: "/k8s/clusters/c-1/api/v1/namespaces/kafka/secrets?resourceVersion=0",
			want: "the API server has not allowed this operator to list secrets in namespace kafka (403 Forbidden) " +
				grant + "secrets in namespace kafka" + role,
		},
		"credentials": {
			code: http.StatusUnauthorized, path: watched,
			want: "the API server has not accepted the credentials of this operator to watch kafkas.kafka.strimzi.io in all namespaces (401 Unauthorized) " +
				"since 2023-11-14T22:13:20Z: check the ServiceAccount of this operator and its token",
		},
		"a kind that does not exist": {
			code: http.StatusNotFound, path: watched,
			want: "the API server has had no resource kafkas.kafka.strimzi.io for this operator to watch (404 Not Found) " +
				"since 2023-11-14T22:13:20Z: install the CustomResourceDefinition kafkas.kafka.strimzi.io of the chart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.lasts(54*time.Second, test.code, test.path)
			if got := s.ready(); got != "" {
				t.Errorf("before a minute has passed: %s", got)
			}
			s.clock.Step(6 * time.Second)
			s.answers(test.code, test.path)
			if got := s.ready(); got != test.want {
				t.Errorf("-want +got\n-%s\n+%s", test.want, got)
			}
			failed := errors.New("timed out")
			if err := s.observer.Explain(failed); !errors.Is(err, failed) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("the process ends with %v", err)
			}
		})
	}
}

func TestWhatIsNoDenialOfAWatchCountsForNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(s *server){
		"an API server that is overloaded":     func(s *server) { s.lasts(time.Hour, http.StatusServiceUnavailable, watched, listed) },
		"an API server that cannot be reached": func(s *server) { s.lasts(time.Hour, 0, watched) },
		"a version that is gone":               func(s *server) { s.lasts(time.Hour, http.StatusGone, watched) },
		"an object that may not be read":       func(s *server) { s.lasts(time.Hour, http.StatusForbidden, kafkas+"/my-cluster") },
		"a list that no cache asks for":        func(s *server) { s.lasts(time.Hour, http.StatusForbidden, kafkas) },
		"a discovery":                          func(s *server) { s.lasts(time.Hour, http.StatusNotFound, "/apis/kafka.strimzi.io/v1") },
		"an optional kind that does not exist": func(s *server) {
			s.lasts(time.Hour, http.StatusNotFound, "/apis/cert-manager.io/v1/certificates?watch=true")
		},
		"one denial whose cache has then ended": func(s *server) { s.answers(http.StatusForbidden, watched); s.clock.Step(2 * time.Minute) },
		"two denials far apart": func(s *server) {
			s.answers(http.StatusForbidden, watched)
			s.clock.Step(time.Hour)
			s.answers(http.StatusForbidden, watched)
		},
		"a denial that nothing repeats": func(s *server) { s.lasts(time.Hour, http.StatusForbidden, watched); s.clock.Step(4 * time.Minute) },
		"a watch that is allowed again": func(s *server) {
			s.lasts(time.Hour, http.StatusForbidden, watched, listed)
			s.answers(http.StatusOK, watched)
		},
		"a list that is allowed again": func(s *server) { s.lasts(time.Hour, http.StatusForbidden, listed); s.answers(http.StatusOK, listed) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			test(s)
			if got := s.ready(); got != "" {
				t.Error(got)
			}
			if err := s.observer.Explain(nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnOutageDoesNotEndADenialAndNeitherDoesAListAlone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for range 5 {
		s.answers(http.StatusForbidden, watched)
		s.answers(http.StatusOK, listed)
		s.answers(http.StatusServiceUnavailable, watched)
		s.answers(0, watched)
		s.clock.Step(30 * time.Second)
	}
	if got := s.ready(); !strings.Contains(got, "to watch kafkas") {
		t.Errorf("it is ready: %s", got)
	}
}

func TestEachResourceAndNamespaceCountsOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const secrets = "/api/v1/namespaces/kafka/secrets?watch=1&fieldSelector=metadata.name%3D"
	s.lasts(time.Minute, http.StatusForbidden, watched, secrets+"a", secrets+"b")
	want := `# HELP keyturn_watch_denied 1 for each watch of the process that the API server has denied for more than a minute.
# TYPE keyturn_watch_denied gauge
keyturn_watch_denied{code="403",resource="kafkas.kafka.strimzi.io",watched_namespace=""} 1
keyturn_watch_denied{code="403",resource="secrets",watched_namespace="kafka"} 1
`
	if err := testutil.CollectAndCompare(s.observer, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	secret := s.observer.Denials()[1]
	if r := secret.Resource; !secret.Covers(r, "kafka") || secret.Covers(r, "other") || secret.Covers(s.observer.Denials()[0].Resource, "kafka") {
		t.Errorf("%v covers something else than the Secrets of its namespace", secret)
	}
	s.lasts(time.Minute, http.StatusForbidden, watched, secrets+"a")
	pods, of := schema.GroupResource{Resource: "pods"}, secret.Resource
	for namespace, want := range map[string]int{"kafka": 2, "other": 1} {
		if denied := s.observer.Denied(namespace, pods, of, s.observer.Denials()[0].Resource); len(denied) != want {
			t.Errorf("in namespace %s %v are denied", namespace, denied)
		}
	}
	if all := s.observer.Denials()[0]; !all.Covers(all.Resource, "other") {
		t.Errorf("%v does not cover each namespace", all)
	}
}

func TestDenialsAreToldWhenTheyBeginAndWhenTheyEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, end := context.WithCancel(t.Context())
	told, ended := make(chan int, 10), make(chan struct{})
	go func() {
		defer close(ended)
		s.observer.Follow(ctx, func(denials []*watches.DeniedError) { told <- len(denials) })
	}()
	for !s.clock.HasWaiters() {
		if ctx.Err() != nil {
			t.Fatal("it does not wait")
		}
	}
	s.lasts(2*time.Minute, http.StatusForbidden, watched)
	s.clock.Step(10 * time.Second)
	if n := <-told; n != 1 {
		t.Errorf("%d denials", n)
	}
	s.answers(http.StatusOK, watched)
	s.clock.Step(10 * time.Second)
	if n := <-told; n != 0 {
		t.Errorf("%d denials after they ended", n)
	}
	end()
	<-ended
	if len(told) > 0 {
		t.Error("what has not changed is reported again")
	}
}

func TestWithoutAnObserverNothingIsDenied(t *testing.T) {
	t.Parallel()
	var observer *watches.Observer
	observer.Follow(t.Context(), func([]*watches.DeniedError) { t.Error("a denial") })
	if denials := observer.Denials(); denials != nil {
		t.Errorf("denials %v", denials)
	}
}
