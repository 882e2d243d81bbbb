package apitest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/podset"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// clusterName is the Kafka of every test.
const clusterName = "my"

// start is when every test begins.
func start() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// world is one namespace with an operator and everything the operator acts on.
type world struct {
	t         *testing.T
	namespace string
	// api is a person's client; writes of the operator go through faulty. The picture
	// is what both have read.
	api     client.Client
	faulty  *faultyClient
	picture *picture
	clock   *clocktesting.FakePassiveClock
	kafka   *adminfake.Cluster
	events  *eventLog
	// log is what the operator has written into its log.
	log bytes.Buffer
	// metrics is what a scraper of the operator sees.
	metrics *metrics.Metrics
	// servers run in pods; ran are the names of the pods whose servers have run.
	servers map[types.UID]*server
	ran     map[string]bool
	// persisted is what reloads have left in the metadata, by pod name.
	persisted map[string]persisted
	// stored is what the API server holds, mounted what kubelets have made of it,
	// and arriving what they have seen and not mounted yet.
	stored   stored
	mounted  map[string]volumes
	arriving map[string]*arrival
	// configsChanged is set while ConfigMaps hold something else than was read.
	configsChanged bool
	// lag is how many rounds the kubelet of a pod takes to mount what has changed.
	lag map[string]int
	// failing are the pods whose servers do not reload, and how many listeners do
	// before it fails.
	failing map[string]int
	// stuck are the pods whose servers crash again and again.
	stuck map[types.UID]bool
	// silent pods run, but their agents do not answer. Those of lying pods say what
	// somebody makes of their reports.
	silent map[string]bool
	lying  map[string]func(*publication.Report)
	// fatal is a line of the configuration that no server survives.
	fatal string
	// ahead is how much the operator's clock is before everybody else's; behind is how
	// much those of the machines of some pods are after them.
	ahead time.Duration
	// unnoticed is set while the API server's clock is as wrong as the operator's.
	unnoticed bool
	behind    map[string]time.Duration
	settings  model.Settings
	stores    authority.StoreGeneration

	reconciler *controller.Reconciler
	// heard is true after a round in which the operator was told something else than before.
	heard   bool
	podSets *podset.Reconciler

	// safety judges; unsafe is set when it has found somebody refused, and happened
	// is what led there.
	safety   *safety
	unsafe   bool
	happened []string
	certs    certificates
	// ways are the states that each anchor has come through, given the generations that
	// each authority has had; acts are what is done when a rotation has come so far.
	ways  map[string][]trust.State
	given map[authorities.Kind]*given
	acts  []act
	// answering is held by the agent that answers: the operator asks many at once.
	answering sync.Mutex
	// access is how the operator has talked to nodes last.
	access *controller.Access
	// lockedOut leaves out the operator, which has lost what nodes know it by.
	lockedOut bool
	// stranger is a CA that somebody has put among the anchors by hand, or nil.
	stranger *x509.Certificate
	// reading is how long applications may take to notice what is offered. offers
	// are what they could read, pinned is what one of them never
	// reads again, and without are the ways of reading that a test leaves out.
	reading time.Duration
	offers  []offered
	pinned  *x509.Certificate
	without map[reader]bool
	// companions run beside the nodes, partners are their processes by the UIDs that
	// PodOf gives, and pairs counts the pods they have had.
	companions []companion.Companion
	// besides decides which run, where the Kafka says so.
	besides  func(model.Cluster) []companion.Companion
	partners map[types.UID]*partner
	pairs    int
	// issuer is who signs leaves, or nil; elsewhere is who does so with a key of its own, and gates say whether it may.
	issuer    func(pki.Authority) issuer.Issuer
	elsewhere *outsideIssuer
	gates     featuregate.Gates
	// users hold certificates of the clients CA, one of each issued key.
	users  []talker
	issued map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api := connect(t)
	namespace := kubetest.Namespace(t, api.person, "kafka-")
	shown := newPicture(namespace)
	w := &world{
		t: t, namespace: namespace, api: shown.of("a person", api.person), picture: shown,
		clock:  clocktesting.NewFakePassiveClock(start()),
		events: &eventLog{}, servers: map[types.UID]*server{},
		ran: map[string]bool{}, stuck: map[types.UID]bool{}, silent: map[string]bool{}, lying: map[string]func(*publication.Report){},
		persisted: map[string]persisted{}, mounted: map[string]volumes{}, arriving: map[string]*arrival{},
		lag: map[string]int{}, behind: map[string]time.Duration{}, failing: map[string]int{},
		reading: readingTime, safety: newSafety(), certs: certificates{}, stored: stored{secrets: map[string]files{}, configs: map[string]files{}}, without: map[reader]bool{}, issued: map[string]bool{}, ways: map[string][]trust.State{}, given: map[authorities.Kind]*given{},
		settings: model.Settings{
			Versions:   []model.KafkaVersion{{Name: "4.2.1", Image: "kafka:4.2.1"}, {Name: "4.3.1", Image: "kafka:4.3.1"}},
			AgentImage: "keyturn:test",
			NetworkPolicies: &model.NetworkPolicies{
				OperatorNamespace: "keyturn", OperatorLabels: map[string]string{"app.kubernetes.io/name": "keyturn"},
			},
		},
		stores: authority.WithStores,
	}
	w.kafka = adminfake.New("cluster", w.clock.Now)
	w.kafka.SetMetadataVersion(release.MetadataVersion("4.3-IV0").Level(), release.MetadataVersion("4.3-IV0").Level())
	w.faulty = w.newFaultyClient(shown.of("an operator", api.operator))
	w.startOperator()
	return w
}

// startOperator starts an operator that remembers nothing, as after a crash.
func (w *world) startOperator() {
	w.faulty.Crashed = false
	w.metrics = metrics.New()
	w.reconciler = w.newReconciler(w.faulty)
	w.podSets = podset.NewReconciler(cachedClient{w.faulty}, w.faulty, w.api.Scheme(), w.clock, controller.PodMaker(w.settings))
}

// newReconciler makes one that reads from cached.
func (w *world) newReconciler(cached client.Client) *controller.Reconciler {
	return w.newReconcilerBeside(cached, w.faulty)
}

// newReconcilerBeside makes one that reads from cached, and from live what must not
// be old.
func (w *world) newReconcilerBeside(cached client.Client, live client.Reader) *controller.Reconciler {
	return controller.New(w.options(cachedClient{cached}, live))
}

// options are those of an operator of the world that reads from these.
func (w *world) options(cached client.Client, live client.Reader) controller.Options {
	options := controller.Options{
		Client: cached, Live: live, Events: w.events, Clock: shiftedClock{w}, Ahead: w.noticed,
		Metrics: w.metrics, Connector: connector{w}, Settings: w.settings, Stores: w.stores, Version: "test",
		Log: logr.FromSlogHandler(slog.NewJSONHandler(&w.log, nil)), Issuer: w.issuer,
		Gates: w.gates,
	}
	if w.elsewhere != nil {
		options.Outside = w.elsewhere
	}
	w.runBeside(&options)
	return options
}

// noticed is how much the operator finds its clock to be ahead.
func (w *world) noticed() time.Duration {
	if w.unnoticed {
		return 0
	}
	return w.ahead
}

// shiftedClock is the operator's clock.
type shiftedClock struct{ w *world }

func (c shiftedClock) Now() time.Time                  { return c.w.clock.Now().Add(c.w.ahead) }
func (c shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// errStuck says that the world does not come to rest.
var errStuck = errors.New("the cluster does not come to rest")

// patience is how long a world waits for what comes with time.
const patience = 5 * time.Minute

// maxRounds is far more than any scenario needs to come to rest.
const maxRounds = 150

// settle lets operator, kubelet and Kafka work until a whole round changes
// nothing and nobody wants to look again soon.
func (w *world) settle() {
	w.t.Helper()
	if err := w.trySettle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trySettle(ctx context.Context) error {
	for range maxRounds {
		before := w.faulty.Written
		result, err := w.round(ctx)
		if err != nil {
			return err
		}
		if w.goOn(ctx) || w.faulty.Written != before || w.heard {
			continue
		}
		if result.RequeueAfter == 0 || result.RequeueAfter > patience {
			return w.rested()
		}
		w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	}
	return fmt.Errorf("%w: %s, after\n%s", errStuck, w.status(ctx), w.told())
}

// goOn is a second for everybody but the operator. It reports whether anything
// changed.
func (w *world) goOn(ctx context.Context) bool {
	changed := w.runKubelet(ctx)
	changed = w.runCompanions(ctx) || changed
	changed = w.act() || changed
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	return changed
}

// rested says whether everything that was planned has happened.
func (w *world) rested() error {
	if len(w.acts) > 0 {
		return fmt.Errorf("%w: it rests before it has come so far: %s", errStuck, w.told())
	}
	return nil
}

// run lets everybody work for some rounds, whether anything comes to rest or not.
func (w *world) run(rounds int) {
	w.t.Helper()
	for range rounds {
		if _, err := w.round(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.goOn(w.t.Context())
	}
}

// round is one pass of each controller. An operator that crashes in it is not heard of
// again, whatever it made of that.
func (w *world) round(ctx context.Context) (ctrl.Result, error) {
	result, err := w.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: w.key(clusterName)})
	w.heard = len(w.reconciler.PollOnce(ctx)) > 0
	if err == nil {
		err = w.keepPods(ctx)
	}
	if w.faulty.Crashed {
		err = kubetest.ErrCrash
	}
	return result, err
}

// keepPods is one pass of the pod set controller over each set.
func (w *world) keepPods(ctx context.Context) error {
	sets, err := w.sets(ctx)
	if err != nil {
		return err
	}
	for i := range sets {
		if _, err := w.podSets.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&sets[i])}); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) sets(ctx context.Context) ([]podsetv1.StrimziPodSet, error) {
	var sets podsetv1.StrimziPodSetList
	err := w.api.List(ctx, &sets, client.InNamespace(w.namespace))
	return sets.Items, err
}

func (w *world) status(ctx context.Context) string {
	var kafka kafkav1.Kafka
	if err := w.api.Get(ctx, w.key(clusterName), &kafka); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(kafka.Status.Conditions)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// connector leads the operator to the world's Kafka and agents.
type connector struct{ w *world }

func (c connector) Admin(access controller.Access) (admin.Client, error) {
	c.w.access = &access
	return faultyAdmin{Client: c.w.adminFor(access), client: c.w.faulty}, nil
}

// adminFor is Kafka as the operator sees it: if no broker and the operator accept
// each other, nobody answers.
func (w *world) adminFor(access controller.Access) admin.Client {
	for _, s := range w.servers {
		loaded, listens := s.loaded[contract.ReplicationListener]
		node := holding{chain: loaded.chain, trust: loaded.trust}
		if listens && w.understands(access, w.hostOf(s.pod), node) == nil {
			return w.kafka.Client()
		}
	}
	refused := adminfake.New("refused", w.clock.Now)
	refused.Fail(&admin.RefusedError{Address: "all brokers", Err: errRefused})
	return refused.Client()
}

var errRefused = errors.New("the certificate is not accepted")

// understands says why the operator and a node do not accept each other. Whoever is
// not known by its leaf must not have expired.
func (w *world) understands(access controller.Access, host string, node holding) error {
	operator := holding{trust: access.Credentials.Anchors, known: access.Leaves(host)}
	if leaf := access.Credentials.Identity.Leaf; leaf != nil {
		operator.chain = append(bundle(leaf), w.intermediates(access.Credentials.Identity)...)
	}
	for _, side := range []struct {
		presents, trusts holding
		usage            pki.Usage
	}{{operator, node, pki.ClientAuth}, {node, operator, pki.ServerAuth}} {
		if len(side.presents.chain) == 0 {
			return errRefused
		}
		leaf := side.presents.chain[0]
		if w.clock.Now().After(leaf.NotAfter) && !slices.Contains(side.trusts.known, fingerprint(leaf)) {
			return errRefused
		}
		if err := w.safety.refusal(&side.presents, &side.trusts, side.usage, w.clock.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) intermediates(identity tls.Certificate) []*x509.Certificate {
	var certs []*x509.Certificate
	for _, der := range identity.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			w.t.Fatal(err)
		}
		certs = append(certs, cert)
	}
	return certs
}

func (c connector) Agents(access controller.Access) controller.Agents {
	c.w.access = &access
	return agents{c.w, access}
}

type agents struct {
	w      *world
	access controller.Access
}

// What a question fails with that nobody answers in time, and one that nobody takes.
var (
	errSilent = fmt.Errorf("no agent answers there: %w", context.DeadlineExceeded)
	errNobody = errors.New("nobody listens there")
)

func (a agents) find(node agentclient.Node) (publication.Report, error) {
	name, _, _ := strings.Cut(node.Name, ".")
	a.w.answering.Lock()
	defer a.w.answering.Unlock()
	if p, beside := a.w.partnerAt(node.Address); beside {
		return a.w.partnerSays(p, a.access, node)
	}
	s, running := a.w.serverOf(name)
	if !running {
		return publication.Report{}, errNobody
	}
	if a.w.silent[name] {
		return publication.Report{}, errSilent
	}
	access := a.access
	access.Leaves = func(string) []string { return node.Leaves }
	if err := a.w.understands(access, node.Name, a.w.mounted[name].agent()); err != nil {
		return publication.Report{}, err
	}
	report := a.w.report(s)
	if lie, lies := a.w.lying[name]; lies {
		lie(&report)
	}
	return report, nil
}

func (a agents) TLS(_ context.Context, node agentclient.Node) (publication.Report, error) {
	return a.find(node)
}

func (a agents) BrokerState(_ context.Context, node agentclient.Node) (contract.BrokerState, error) {
	if _, err := a.find(node); err != nil {
		return contract.BrokerState{}, err
	}
	return contract.BrokerState{State: contract.StateRunning}, nil
}

// eventLog keeps the reasons of events, and what they say of which object.
type eventLog struct{ reasons, notes []string }

// Eventf notes an event.
func (l *eventLog) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	l.reasons = append(l.reasons, reason)
	said := fmt.Sprintf(note, args...)
	if named, is := regarding.(client.Object); is {
		said = named.GetName() + ": " + said
	}
	l.notes = append(l.notes, said)
}

// says reports whether one event has all words.
func (l *eventLog) says(words ...string) bool {
	return slices.ContainsFunc(l.notes, func(note string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(note, word) })
	})
}
