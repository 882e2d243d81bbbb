package controller

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	domains "github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// room is for more events than any test waits for.
const room = 100

func TestAStepThatIsTakenAgainAndAgainIsToldOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(room)
	r := New(Options{Events: recorder, Metrics: metrics.New()})
	kafka, known := &kafkav1.Kafka{}, &memory{}
	step := func(from, to trust.State) *domain {
		d := &domain{Decided: domains.Decided{Plan: trust.Plan{States: map[trust.AnchorID]trust.State{"a": to}}}}
		d.Snapshot.Anchors = []trust.Anchor{{ID: "a", Stored: from}}
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
			r.trustChanged(kafka, known, authorities.Cluster, c.domain)
		}
		if got := len(recorder.Events); got != c.told {
			t.Errorf("%s is told %d times, want %d", c.what, got, c.told)
		}
		for range len(recorder.Events) {
			<-recorder.Events
		}
	}
}

// told is an event, and what tells it from others.
type told struct {
	kind, reason, action string
	related              corev1.ObjectReference
}

// collector keeps events as a cluster does: the first of each kind, and whatever is not
// told from it is taken for its repetition.
type collector struct {
	notes map[told]string
	lost  []string
}

func (c *collector) Eventf(_, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := told{kind: kind, reason: reason, action: action}
	if ref, is := related.(*corev1.ObjectReference); is {
		key.related = *ref
	}
	text := fmt.Sprintf(note, args...)
	if _, known := c.notes[key]; known {
		c.lost = append(c.lost, text)
		return
	}
	c.notes[key] = text
}

func collecting() (*Reconciler, *collector) {
	c := &collector{notes: map[told]string{}}
	return New(Options{Events: c, Metrics: metrics.New()}), c
}

func (c *collector) want(t *testing.T, count int) {
	t.Helper()
	if len(c.lost) > 0 {
		t.Errorf("taken for repetitions: %q", c.lost)
	}
	if len(c.notes) != count {
		t.Errorf("%d events, want %d: %v", len(c.notes), count, c.notes)
	}
}

func smallKafka() *kafkav1.Kafka {
	kafka := &kafkav1.Kafka{}
	kafka.Name, kafka.Namespace, kafka.UID = "my", "kafka", "uid"
	return kafka
}

func TestEventsAboutDifferentThingsAreDifferentEvents(t *testing.T) {
	t.Parallel()
	first, second := pki.Fingerprint{1}, pki.Fingerprint{2}
	created := func(cert pki.Fingerprint) authority.Transition {
		return authority.Transition{Kind: authority.Created, Certificate: cert, Why: "the first one was made, because the cluster had none"}
	}
	removed := func(cert pki.Fingerprint) authority.Transition {
		return authority.Transition{Kind: authority.OldRemoved, Certificate: cert}
	}
	withdrawn := func(bundle trust.Bundle) trust.Step {
		return trust.Step{Kind: trust.Withdraw, Anchor: "a", Bundle: bundle}
	}
	stored := func(anchor trust.AnchorID, state trust.State) trust.Step {
		return trust.Step{Kind: trust.Store, Anchor: anchor, State: state}
	}
	for name, tell := range map[string]func(a announcer, kafka *kafkav1.Kafka){
		"both authorities are made": func(a announcer, kafka *kafkav1.Kafka) {
			a.authorityChanged(kafka, authorities.Cluster, created(first))
			a.authorityChanged(kafka, authorities.Clients, created(second))
		},
		"two certificates of one authority are removed": func(a announcer, kafka *kafkav1.Kafka) {
			a.authorityChanged(kafka, authorities.Cluster, removed(first))
			a.authorityChanged(kafka, authorities.Cluster, removed(second))
		},
		"two nodes are issued certificates": func(a announcer, kafka *kafkav1.Kafka) {
			a.leafIssued(kafka, "my-0", authority.LeafDecision{Reason: authority.LeafUnreadable})
			a.leafIssued(kafka, "my-1", authority.LeafDecision{Reason: authority.LeafUnreadable})
		},
		"two anchors change their states": func(a announcer, kafka *kafkav1.Kafka) {
			a.trustMoved(kafka, authorities.Cluster, stored("a", trust.PhaseOut), "a is phased out")
			a.trustMoved(kafka, authorities.Cluster, stored("b", trust.PhaseOut), "b is phased out")
		},
		"one anchor goes through two states": func(a announcer, kafka *kafkav1.Kafka) {
			a.trustMoved(kafka, authorities.Cluster, stored("a", trust.Untrusted), "a is stored")
			a.trustMoved(kafka, authorities.Cluster, stored("a", trust.TrustedUnused), "a is trusted")
		},
		"an anchor leaves one bundle after the other": func(a announcer, kafka *kafkav1.Kafka) {
			a.trustMoved(kafka, authorities.Cluster, withdrawn(trust.Main), "from brokers")
			a.trustMoved(kafka, authorities.Cluster, withdrawn(trust.Late), "from controllers")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, collected := collecting()
			tell(r.events, smallKafka())
			collected.want(t, 2)
		})
	}
}

func TestAWarningIsToldObjectByObject(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	c.note("Secret my-0", reasonCertificateHeld, "it cannot be issued")
	c.note("Secret my-1", reasonCertificateHeld, "it cannot be issued")
	both := conditionsSince(c.warnings(), nil, noon())
	c.kafka.Status.Conditions = both[:1]

	r.announce(c.observation, both)
	collected.want(t, 1)

	c.kafka.Status.Conditions = both
	r.announce(c.observation, both)
	collected.want(t, 1)
}

func TestEachMisplacedRequestIsToldOnce(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	secret := func(annotations map[string]string) authority.Stored {
		return authority.Stored{Exists: true, Annotations: annotations, Data: map[string][]byte{}}
	}
	for _, look := range []struct {
		what      string
		key, cert map[string]string
		events    int
	}{
		{"one", map[string]string{"strimzi.io/force-renew": "true"}, nil, 1},
		{"the same", map[string]string{"strimzi.io/force-renew": "true"}, nil, 1},
		{
			"another on the same Secret",
			map[string]string{"strimzi.io/force-renew": "true", "strimzi.io/force-replace": "yes"},
			nil, 2,
		},
		{
			"the second with another wrong value",
			map[string]string{"strimzi.io/force-renew": "true", "strimzi.io/force-replace": "ture"},
			nil, 3,
		},
		{
			"one on the other Secret",
			map[string]string{"strimzi.io/force-renew": "true", "strimzi.io/force-replace": "ture"},
			map[string]string{"strimzi.io/force-replace": "true"},
			4,
		},
	} {
		input := authority.Input{Names: authorities.Cluster.Names("my"), KeySecret: secret(look.key), CertSecret: secret(look.cert)}
		c.clusterCA.remarks = authority.Misasked(input)
		after := conditionsSince(c.warnings(), c.kafka.Status.Conditions, noon())
		r.announce(c.observation, after)
		c.kafka.Status.Conditions = after
		if len(collected.notes) != look.events || len(collected.lost) > 0 {
			t.Fatalf("%s: told %v, taken for repetitions %q, want %d", look.what, collected.notes, collected.lost, look.events)
		}
	}
}

func TestEachAnnotationWithoutEffectIsToldOnce(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	for events, annotations := range []map[string]string{
		{},
		{"strimzi.io/pause": "true"},
		{"strimzi.io/pause": "true", "keyturn.dev/reload": "no"},
		{"strimzi.io/pause": "true", "keyturn.dev/reload": "never"},
	} {
		c.kafka.Annotations = annotations
		_, c.findings = model.Resolve(model.Input{Kafka: &c.kafka})
		warnings := slices.DeleteFunc(c.warnings(), func(w wanted) bool { return w.reason != model.ReasonIdleAnnotation })
		after := conditionsSince(warnings, c.kafka.Status.Conditions, noon())
		r.announce(c.observation, after)
		c.kafka.Status.Conditions = after
		if len(collected.notes) != events || len(collected.lost) > 0 {
			t.Fatalf("%v: told %v, taken for repetitions %q, want %d", annotations, collected.notes, collected.lost, events)
		}
	}
}

func annotatedPod(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

// looks announces what a reconcile has to say, as a reconcile does.
func looks(r *Reconciler, c *applied) {
	after := conditionsSince(c.warnings(), c.kafka.Status.Conditions, noon())
	r.announce(c.observation, after)
	c.kafka.Status.Conditions = after
}

func TestEachAnnotationOfPodsWithoutEffectIsToldInAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{
		"my-dual-0": annotatedPod(map[string]string{"strimzi.io/manual-rolling-updates": "true", "keyturn.dev/restart": "true"}),
	})
	looks(r, c)
	collected.want(t, 2)
}

func TestEachPodSetWithAnAnnotationWithoutEffectIsToldInAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	set := podsetv1.StrimziPodSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"strimzi.io/manual-rolling-updates": "true"}}}
	c.podSets = map[string]podsetv1.StrimziPodSet{"my-brokers": set, "my-controllers": set}
	looks(r, c)
	collected.want(t, 2)
}

func TestARequestToDeleteClaimsIsToldBesideAnotherAnnotationWithoutEffect(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{"my-dual-0": annotatedPod(map[string]string{"keyturn.dev/restart": "true"})})
	looks(r, c)
	c.pods["my-dual-0"] = annotatedPod(map[string]string{"keyturn.dev/restart": "true", "strimzi.io/delete-pod-and-pvc": "true"})
	looks(r, c)
	collected.want(t, 2)
}

// "kubectl annotate pods -l ..." takes one pod after the other, and each is a reconcile.
func TestAnAnnotationOfManyPodsWithoutEffectIsToldOnce(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	misspelled := annotatedPod(map[string]string{"strimzi.io/manual-rolling-updates": "true"})
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{})
	for _, name := range []string{"my-dual-0", "my-dual-1", "my-dual-2"} {
		c.pods[name] = misspelled
		looks(r, c)
	}
	if told := len(collected.notes) + len(collected.lost); told != 1 {
		t.Errorf("told %d times: %v, then %q", told, collected.notes, collected.lost)
	}
}

// An agent that answers what nobody reads is another matter than those that do not answer.
func TestAgentsThatCannotBeReadAndThoseThatAreSilentAreToldApart(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	c.reports = map[string]agentReport{"my-dual-1": {unreadable: "it answers too much"}, "my-dual-3": {unreadable: "it answers too much"}}
	for _, look := range []struct {
		silent []string
		events int
	}{
		{[]string{"my-dual-1"}, 1},
		{[]string{"my-dual-0", "my-dual-1"}, 2},
		{[]string{"my-dual-0", "my-dual-1", "my-dual-2"}, 2},
		{[]string{"my-dual-0", "my-dual-1", "my-dual-2", "my-dual-3"}, 3},
	} {
		c.silent = look.silent
		looks(r, c)
		collected.want(t, look.events)
	}
}

func TestEachMemberThatIsSetApartIsToldOnce(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	liar := func(member trust.MemberID) trust.Exclusion {
		return trust.Exclusion{Member: member, Reason: trust.UnknownClaims, What: string(member) + " agent claims to run on an unknown CA"}
	}
	c.clusterCA.Plan.Excluded = []trust.Exclusion{liar("my-dual-1")}
	looks(r, c)
	collected.want(t, 1)

	c.clusterCA.Plan.Excluded = []trust.Exclusion{liar("my-dual-1"), liar("my-dual-2")}
	looks(r, c)
	collected.want(t, 2)

	c.clientsCA.Plan.Excluded = c.clusterCA.Plan.Excluded
	looks(r, c)
	collected.want(t, 2)
}

func TestANewCertificateOfAListenerIsTold(t *testing.T) {
	t.Parallel()
	certificate := func(name string) listenercert.Checked {
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{CommonName: name}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: authority.Day, Now: noon(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return listenercert.Checked{Chain: []*x509.Certificate{ca.Certificate()}}
	}
	old, next := certificate("old"), certificate("next")
	before := map[string][]byte{"a-9093.crt": pki.EncodeBundle(old.Chain...), "b-9094.crt": pki.EncodeBundle(old.Chain...)}
	for name, c := range map[string]struct {
		before map[string][]byte
		given  map[publication.Role]listenercert.Checked
		events int
	}{
		"the first one is no news": {nil, map[publication.Role]listenercert.Checked{"a-9093": next}, 0},
		"the same is no news":      {before, map[publication.Role]listenercert.Checked{"a-9093": old}, 0},
		"another one is":           {before, map[publication.Role]listenercert.Checked{"a-9093": next, "b-9094": old}, 1},
		"each listener is told of": {before, map[publication.Role]listenercert.Checked{"a-9093": next, "b-9094": next}, 2},
	} {
		r, collected := collecting()
		r.events.listenersChanged(smallKafka(), "my-0", c.before, c.given)
		if len(collected.notes) != c.events || len(collected.lost) > 0 {
			t.Errorf("%s: %v and %v, want %d", name, collected.notes, collected.lost, c.events)
		}
	}
}

func TestBothAuthoritiesTellTheirSteps(t *testing.T) {
	t.Parallel()
	known, step := &memory{}, []trust.Step{{Kind: trust.Withdraw, Anchor: "a", Bundle: trust.Main}}
	control := []trust.Step{{Kind: trust.Withdraw, Anchor: "a", Bundle: trust.Late}}
	for _, c := range []struct {
		what  string
		kind  authorities.Kind
		taken []trust.Step
		told  int
	}{
		{"the cluster CA", authorities.Cluster, step, 1},
		{"the clients CA", authorities.Clients, step, 1},
		{"the cluster CA again", authorities.Cluster, step, 0},
		{"the same of another bundle", authorities.Cluster, slices.Concat(step, control), 1},
	} {
		if got := len(known.begun(c.kind, c.taken)); got != c.told {
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
	r := New(Options{Client: writer, Events: recorder, Metrics: metrics.New()})
	reconcile := func() error {
		c := clusterOf(&kafkav1.Kafka{}, nil)
		c.secrets, c.issued = map[string]corev1.Secret{}, map[string]authority.LeafDecision{"node": {Reason: authority.LeafUnreadable}}
		return r.writeSecret(t.Context(), c, kube.SecretIntent{Namespace: "ns", Name: "node"})
	}
	for range 40 {
		if err := reconcile(); !errors.Is(err, refused) {
			t.Fatalf("error %v, want that it is refused", err)
		}
	}
	if got := len(recorder.Events); got != 0 {
		t.Errorf("%d events tell of certificates that nobody has", got)
	}
	failure = nil
	if err := reconcile(); err != nil || len(recorder.Events) != 1 {
		t.Errorf("%d events, %v; want one", len(recorder.Events), err)
	}
}

// Whatever there is too much of is told by one event, which says what can be done.
func TestSecretsThatAreNotReadAreToldByOneEventThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for count, wants := range map[int][]string{
		1:    {"than its nodes can have: my-x-0; ", "remove the label strimzi.io/cluster"},
		1000: {"than its nodes can have: my-x-0, my-x-1, ", "remove the label strimzi.io/cluster"},
	} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			t.Parallel()
			r, collected := collecting()
			c := clusterOf(smallKafka(), nil)
			for i := range count {
				c.unread = append(c.unread, orphanCandidate{name: fmt.Sprintf("my-x-%d", i)})
			}
			c.noteHidden()

			r.announce(c.observation, conditionsSince(c.warnings(), nil, noon()))

			collected.want(t, 1)
			for _, note := range collected.notes {
				for _, want := range wants {
					if !strings.Contains(note, want) || len(note) > maxNote {
						t.Errorf("the event says %q, want %q", note, want)
					}
				}
			}
		})
	}
}

func TestEachWarningAboutOneSecretIsAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	r, collected := collecting()
	c := clusterOf(smallKafka(), nil)
	remark := func(part, text string) authority.Remark {
		return authority.Remark{Secret: "my-cluster-ca-cert", Part: part, Text: text}
	}
	first, second := remark("data{ca.crt}.notAfter", "it expires"), remark("data{ca.crt}", "it has changed")

	c.clusterCA.Warnings = []authority.Remark{first, second}
	both := conditionsSince(c.warnings(), nil, noon())
	r.announce(c.observation, both)
	collected.want(t, 2)

	c.kafka.Status.Conditions = both[:1]
	r, collected = collecting()
	r.announce(c.observation, both)
	collected.want(t, 1)
}
