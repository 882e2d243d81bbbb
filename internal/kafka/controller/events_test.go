package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/trust"
)

// room is for more events than any test waits for.
const room = 100

func TestAStepThatIsTakenAgainAndAgainIsToldOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(room)
	r := New(Options{Events: recorder, Metrics: NewMetrics()})
	kafka := &kafkav1.Kafka{}
	kafka.UID = "uid"
	step := func(from, to trust.State) *domain {
		d := &domain{plan: trust.Plan{States: map[trust.AnchorID]trust.State{"a": to}}}
		d.snapshot.Anchors = []trust.Anchor{{ID: "a", Stored: from}}
		return d
	}
	for _, c := range []struct {
		what   string
		domain *domain
		times  int
		told   int
	}{
		{"a step that cannot be written", step(trust.Untrusted, trust.TrustedUnused), 40, 1},
		{"the same, once it is written", step(trust.TrustedUnused, trust.TrustedUnused), 2, 0},
		{"the same, taken another time", step(trust.Untrusted, trust.TrustedUnused), 2, 1},
		{"another step of the same kind", step(trust.TrustedUnused, trust.PhaseOut), 2, 1},
	} {
		for range c.times {
			r.trustChanged(kafka, authority.ClusterCA, c.domain)
		}
		if got := len(recorder.Events); got != c.told {
			t.Errorf("%s is told %d times, want %d", c.what, got, c.told)
		}
		for range len(recorder.Events) {
			<-recorder.Events
		}
	}
}

func TestBothAuthoritiesTellTheirSteps(t *testing.T) {
	t.Parallel()
	s, step := newSteps(), []trust.Step{{Kind: trust.Withdraw, Anchor: "a", Planes: []trust.Plane{trust.Data}}}
	control := []trust.Step{{Kind: trust.Withdraw, Anchor: "a", Planes: []trust.Plane{trust.Control}}}
	for _, c := range []struct {
		what  string
		kind  authority.Kind
		taken []trust.Step
		told  int
	}{
		{"the cluster CA", authority.ClusterCA, step, 1},
		{"the clients CA", authority.ClientsCA, step, 1},
		{"the cluster CA again", authority.ClusterCA, step, 0},
		{"the same on another plane", authority.ClusterCA, slices.Concat(step, control), 1},
	} {
		if got := len(s.begun("uid", c.kind, c.taken)); got != c.told {
			t.Errorf("%s: %d steps are told, want %d", c.what, got, c.told)
		}
	}
}

func TestACertificateIsToldOfOnceItIsWritten(t *testing.T) {
	t.Parallel()
	refused := errors.New("the quota is used up")
	failure := refused
	writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if failure != nil {
				return failure
			}
			return to.Create(ctx, object, opts...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(room)
	r := New(Options{Client: writer, Events: recorder, Metrics: NewMetrics()})
	pass := func() error {
		p := passOf(&kafkav1.Kafka{}, nil)
		p.secrets, p.issued = map[string]corev1.Secret{}, map[string]authority.LeafDecision{"node": {Reason: authority.LeafUnreadable}}
		return r.writeSecret(t.Context(), p, kube.SecretIntent{Namespace: "ns", Name: "node"})
	}
	for range 40 {
		if err := pass(); !errors.Is(err, refused) {
			t.Fatalf("error %v, want that it is refused", err)
		}
	}
	if got := len(recorder.Events); got != 0 {
		t.Errorf("%d events tell of certificates that nobody has", got)
	}
	failure = nil
	if err := pass(); err != nil || len(recorder.Events) != 1 {
		t.Errorf("%d events, %v; want one", len(recorder.Events), err)
	}
}
