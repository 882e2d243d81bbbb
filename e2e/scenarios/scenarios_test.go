package scenarios

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// chosen selects scenarios by their name; -run cannot, because the name of a test
// function would stand before it.
var chosen = flag.String("scenario", "", "run the scenarios whose name matches this regular expression")

var timings = flag.String("timings", hold, "what a time does that is too long: \"hold\" fails the scenario, \"note\" is only reported")

// hold and note are the values of timings. A machine that is busy with other things
// makes times long; what was lost and who was refused does not depend on it.
const (
	hold = "hold"
	note = "note"
)

// keepVariable leaves namespaces of failed scenarios behind for a person to look at.
const keepVariable = "KEYTURN_KEEP"

// limit of one scenario that does not ask for more.
const limit = 10 * time.Minute

// scenario is one story.
type scenario struct {
	name string
	run  func(*stage)
	// within is its limit.
	within time.Duration
}

func all() []scenario {
	return slices.Concat(releaseScenarios(), clusterScenarios(), trustScenarios(), applicationScenarios(), topicScenarios(), certManagerScenarios(), etcdScenarios())
}

// releaseScenarios play with the files of a release alone.
func releaseScenarios() []scenario {
	const long = 20 * time.Minute
	return []scenario{
		{name: "release/quickstart", run: quickstart, within: long},
		{name: "release/operator-changed-under-load", run: operatorChanged, within: long},
	}
}

func clusterScenarios() []scenario {
	// A kubelet may need more than a minute for each of a dozen contents.
	const contractLimit = 30 * time.Minute
	// A kubelet waits up to five minutes between two attempts to pull an image.
	const registryLimit = 20 * time.Minute
	// All nodes are restarted five times.
	const upgradesLimit = 30 * time.Minute
	return []scenario{
		{name: "cluster/created-used-rolled-scaled-deleted", run: wholeLife},
		{name: "cluster/admin-client-fulfils-its-contract", run: adminContract},
		{name: "cluster/agents-tell-the-truth", run: agentsTellTheTruth},
		{name: "cluster/agent-fulfils-its-contract", run: agentContract, within: contractLimit},
		{name: "cluster/kubelet-fulfils-its-contract", run: kubeletContract, within: contractLimit},
		{name: "cluster/hand-edits-are-put-back", run: handEditsArePutBack},
		{name: "cluster/strangers-refused", run: strangersRefused},
		{name: "cluster/paused-means-paused", run: pausedMeansPaused},
		{name: "cluster/authority-renewed-under-load", run: authorityRenewed},
		{name: "cluster/operator-killed-while-it-restarts-nodes", run: operatorDies},
		{name: "cluster/property-changed-under-load", run: configFollows},
		{name: "cluster/stuck-node-blocks-the-others", run: stuckNodeBlocks},
		{name: "cluster/lost-authority-certificates-come-back", run: lostCertificatesComeBack},
		{name: "cluster/listener-certificate-replaced-under-load", run: listenerCertificate},
		{name: "cluster/upgraded-under-load", run: versionFollows},
		{name: "cluster/oldest-to-newest", run: oldestToNewest, within: upgradesLimit},
		{name: "cluster/users-own-authorities", run: usersAuthorities},
		{name: "cluster/controllers-restart-first", run: controllersGoFirst},
		{name: "cluster/private-registry", run: privateRegistry, within: registryLimit},
	}
}

// trustScenarios play on one cluster as far as they leave it as they found it.
func trustScenarios() []scenario {
	const long, longer = 20 * time.Minute, 30 * time.Minute
	return []scenario{
		{name: "trust/cluster-ca-key-replaced-without-restart", run: clusterKeyReplaced},
		{name: "trust/clients-ca-key-replaced", run: clientsKeyReplaced},
		{name: "trust/renewed-with-the-same-key", run: renewedWithTheSameKey},
		{name: "trust/aborted", run: replacementAborted},
		{name: "trust/replaced-during-a-replacement", run: replacedTwice, within: long},
		{name: "trust/compromised-key-distrusted-now", run: compromised, within: long},
		{name: "trust/container-restart-after-reload", run: containerRestarted},
		{name: "trust/node-restarted-by-hand-in-each-phase", run: restartedInEachPhase, within: long},
		{name: "trust/node-down-before-and-during", run: nodeDown, within: long},
		{name: "trust/kubelet-stopped-for-a-minute", run: kubeletStopped},
		{name: "trust/operator-killed-at-random-moments", run: operatorKilled, within: longer},
		{name: "trust/reload-switched-off", run: reloadSwitchedOff, within: long},
		{name: "trust/key-secret-lost", run: keyLost, within: long},
		{name: "trust/key-secret-lost-without-reload", run: keyLostWithoutReload, within: long},
		{name: "trust/raft-clients-at-the-end-of-their-certificates", run: raftClientsEnd},
		{name: "trust/renewed-with-another-subject", run: renewedWithAnotherSubject, within: long},
		{name: "trust/replaced-during-version-upgrade", run: replacedDuringUpgrade, within: long},
		{name: "trust/agent-lies", run: agentLies},
		{name: "trust/ended-without-a-cross-certificate", run: endedWithoutACrossCertificate, within: longer},
		{name: "trust/brokers-added-while-nobody-vouches", run: brokersAddedWhileNobodyVouches, within: long},
		{name: "trust/secrets-lost-in-the-middle", run: secretsLostInTheMiddle},
	}
}

// applicationScenarios play with users and with applications that connect as them.
func applicationScenarios() []scenario {
	const long = 20 * time.Minute
	return []scenario{
		{name: "applications/user-connects", run: userConnects},
		{name: "applications/users-authorized", run: usersAuthorized},
		{name: "applications/user-below-an-intermediate", run: userBelowAnIntermediate},
		{name: "applications/access-across-namespaces", run: accessAcrossNamespaces},
		{name: "applications/access-follows", run: accessFollows, within: long},
		{name: "applications/beside-the-nodes", run: besideTheNodes, within: long},
	}
}

// topicScenarios play with topics.
func topicScenarios() []scenario {
	const long = 20 * time.Minute
	return []scenario{
		{name: "topics/created-and-changed", run: topicsCreatedAndChanged},
		{name: "topics/through-a-rotation", run: topicsThroughARotation, within: long},
		{name: "topics/deleted-in-every-order", run: topicsDeletedInEveryOrder, within: long},
	}
}

// certManagerScenarios play with the cert-manager of the Kubernetes cluster, and with the feature gate on.
func certManagerScenarios() []scenario {
	const long = 20 * time.Minute
	return []scenario{
		{name: "certmanager/created", run: createdByCertManager},
		{name: "certmanager/leaf-renewed", run: leafRenewed},
		{name: "certmanager/ca-renewed-same-key", run: issuersCARenewed},
		{name: "certmanager/ca-rekeyed-bundle-first", run: rekeyedBundleFirst, within: long},
		{name: "certmanager/ca-rekeyed-leaves-first", run: rekeyedLeavesFirst, within: long},
		{name: "certmanager/issuer-first-then-new-key", run: issuerFirstThenNewKey, within: long},
		{name: "certmanager/operator-killed-in-a-rekey", run: killedInARekey, within: long},
		{name: "certmanager/clients-ca-rekeyed", run: clientsCARekeyed},
		{name: "certmanager/users-beside-the-nodes", run: issuedBesideTheNodes},
		{name: "certmanager/down-for-the-whole-time", run: downInARekey, within: long},
		{name: "certmanager/moved-in", run: movedIn, within: long},
		{name: "certmanager/moved-to-own-keys", run: movedToOwnKeys, within: long},
		{name: "certmanager/issuer-changed", run: issuerChanged, within: long},
	}
}

// etcdScenarios play with etcd clusters.
func etcdScenarios() []scenario {
	// Certificates live for ten minutes at least, and CAs for three times as long.
	const lives, caLives = 25 * time.Minute, 45 * time.Minute
	return []scenario{
		{name: "etcd/created", run: etcdCreated},
		{name: "etcd/isolated", run: etcdIsolated},
		{name: "etcd/application-connects", run: etcdApplicationConnects, within: lives},
		{name: "etcd/static-and-plaintext", run: etcdStaticAndPlaintext},
		{name: "etcd/signed-by-an-outside-pki", run: etcdSignedOutside},
		{name: "etcd/attested", run: etcdAttested},
		{name: "etcd/backed-up", run: etcdBackedUp},
		{name: "etcd/restored", run: etcdRestored},
		{name: "etcd/out-of-space", run: etcdOutOfSpace},
		{name: "etcd/members-lost-and-back", run: etcdMembersLost, within: lives},
		{name: "etcd/volume-emptied-under-a-pod", run: etcdVolumeEmptied, within: lives},
		{name: "etcd/scaled-and-upgraded-under-load", run: etcdScaledAndUpgraded, within: lives},
		{name: "etcd/cas-replaced-under-load", run: etcdCAsReplaced},
		{name: "etcd/cas-renewed", run: etcdCAsRenewed, within: caLives},
		{name: "etcd/operator-killed-in-a-rotation", run: etcdOperatorKilled, within: lives},
		{name: "etcd/member-down-in-a-rotation", run: etcdMemberDown},
		{name: "etcd/aborted", run: etcdReplacementAborted},
		{name: "etcd/emergency", run: etcdEmergency},
		{name: "etcd/grown-in-a-rotation", run: etcdGrown},
		{name: "etcd/wrong-cas-restored", run: etcdWrongCAsRestored},
		{name: "etcd/renewed-under-load", run: etcdRenewed, within: lives},
		{name: "etcd/operator-away-until-certificates-expire", run: etcdOperatorAway, within: lives},
	}
}

func TestScenarios(t *testing.T) {
	if os.Getenv(harness.KubeconfigVariable) == "" {
		t.Fatal("KUBECONFIG names no cluster: make e2e sets it")
	}
	selected, err := regexp.Compile(*chosen)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	journal := harness.NewJournal(os.Stdout)
	if err := journal.Step("nothing is left of an earlier run", func() error { return clearAway(t.Context(), kube) }); err != nil {
		t.Fatal(err)
	}
	if err := kube.Install(t.Context(), journal); err != nil {
		t.Fatal(err)
	}
	shared := &stand{kube: kube, journal: journal}
	t.Cleanup(func() { shared.remove(context.WithoutCancel(t.Context())) })
	played := 0
	for _, s := range all() {
		if selected.MatchString(s.name) {
			played++
			t.Run(s.name, func(t *testing.T) { play(t, shared, s) })
		}
	}
	if played == 0 {
		t.Fatalf("no scenario has a name that matches %q", *chosen)
	}
}

// clearAway takes away the clusters of a run that was killed, and on the bed that of the
// demo: they have the machine, and beside them the operator itself may find no room.
func clearAway(ctx context.Context, kube *harness.Kubernetes) error {
	bed, err := kube.OnBed(ctx)
	if err != nil {
		return err
	}
	errs := []error{kube.DeleteNamespace(ctx, sharedNamespace)}
	if bed {
		errs = append(errs, kube.DeleteNamespace(ctx, harness.DemoNamespace), kube.DeleteNamespace(ctx, quickstartNamespace))
	}
	for _, s := range all() {
		errs = append(errs, kube.ForgetEtcdClusters(ctx, s.namespace()), kube.DeleteNamespace(ctx, s.namespace()))
	}
	return errors.Join(errs...)
}

// play gives a scenario its stage, and writes down what came of it.
func play(t *testing.T, shared *stand, s scenario) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(s.within, limit))
	defer cancel()
	st := &stage{
		T: t, ctx: ctx, name: s.name, journal: shared.journal, shared: shared, kube: shared.kube, started: time.Now(),
		kafka: harness.Kafka{Kube: shared.kube, Namespace: s.namespace(), Name: clusterName},
	}
	st.journal.Say("%s begins", s.name)
	defer st.end()
	s.run(st)
}

// clusterName is the Kafka of every scenario, as the examples name it.
const clusterName = "my-cluster"

// namespace is where the scenario has a cluster of its own.
func (s scenario) namespace() string {
	const longest = 63
	_, what, _ := strings.Cut(s.name, "/")
	name := "e2e-" + what
	return strings.TrimRight(name[:min(len(name), longest)], "-")
}

// stage is where one scenario is played.
type stage struct {
	*testing.T

	ctx     context.Context
	name    string
	journal *harness.Journal
	shared  *stand
	kube    *harness.Kubernetes
	// kafka is the scenario's own cluster, or the shared one once it was asked for.
	kafka   harness.Kafka
	started time.Time
	load    *harness.Load
	result  *probe.Result
	figures []report.Figure
	// accounts and handshakes are of clients that are none of the probe, as etcdLoad is.
	accounts   []report.Client
	handshakes []report.Handshakes
	etcdLoad   *harness.EtcdLoad
	// seen is the picture of the clients that were ended last.
	seen  *timeline.Timeline
	notes []string
	// restarts of nodes belong to the scenario: clients may wait for them.
	restarts bool
}

// must ends the scenario with an error.
func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// step does something and tells how long it took.
func (s *stage) step(what string, do func() error) {
	s.Helper()
	if s.load != nil {
		s.load.SetPhase(what)
	}
	if s.etcdLoad != nil {
		s.etcdLoad.SetPhase(what)
	}
	s.must(s.journal.Step("  "+what, do))
}

// figure writes a number into the report; one that misses its target fails the
// scenario.
func (s *stage) figure(f report.Figure) {
	s.Helper()
	s.figures = append(s.figures, f)
	switch {
	case f.Ok:
	case *timings == note && f.IsSlow():
		s.Logf("noted: %s is %g %s, to be %s", f.Name, f.Value, f.Unit, f.Target)
	default:
		s.Errorf("%s is %g %s, to be %s", f.Name, f.Value, f.Unit, f.Target)
	}
}

// end writes the report, leaves diagnostics behind if something went wrong, and
// takes away what the scenario made.
func (s *stage) end() {
	s.Helper()
	ctx := context.WithoutCancel(s.ctx)
	if s.load != nil {
		s.witness()
	}
	if s.etcdLoad != nil {
		s.finishEtcdLoad()
	}
	summary := report.Report{Name: s.name, StartedAt: s.started, Machine: report.Machine()}
	if s.result != nil {
		summary = s.result.Report(s.name, report.Machine())
	}
	summary.StartedAt, summary.DurationSeconds = s.started, time.Since(s.started).Seconds()
	summary.Figures, summary.Notes = append(summary.Figures, s.figures...), append(summary.Notes, s.notes...)
	summary.Clients = append(summary.Clients, s.accounts...)
	summary.Handshakes = append(summary.Handshakes, s.handshakes...)
	summary.Ok = !s.Failed()
	if s.Failed() {
		if err := s.kafka.Diagnose(ctx, s.kube.Folder("e2e", s.name)); err != nil {
			s.Log(err)
		}
		s.shared.spoil(ctx, s.kafka)
	}
	if err := s.kube.WriteReport("e2e", summary, s.seen); err != nil {
		s.Error(err)
	}
	s.journal.Say("%s ends after %.1f s", s.name, time.Since(s.started).Seconds())
	if s.Failed() && os.Getenv(keepVariable) != "" {
		return
	}
	if s.kafka.Namespace != sharedNamespace {
		if err := s.kube.DeleteNamespace(ctx, s.kafka.Namespace); err != nil {
			s.Error(err)
		}
	}
}
