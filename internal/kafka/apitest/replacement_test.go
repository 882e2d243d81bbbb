package apitest

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// A cluster CA's key is replaced. That nobody is refused on the way, whatever they
// trust, is checked at every write and every load of all these tests.

func TestAReplacedKeyRestartsNothing(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	pods := w.podUIDs()

	w.replace(authorities.Cluster)
	w.settle()

	if !maps.Equal(pods, w.podUIDs()) {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
	w.wantRemainder(firstV, nextV)
	w.wantRoles(" raft", "presents "+firstV+", trusts "+firstV)
	if !has(w.getKafka(), condition.Ready) {
		t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
	}
}

func TestTheOldAuthorityLeavesWhenEachNodeHasStartedOnce(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()

	w.restartEach()

	w.wantAlone(nextV)
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("the operator restarted %v", w.faulty.podsDeleted)
	}
	if n := len(w.secret("my-cluster-ca-cert").Data); n != 3 {
		t.Errorf("%d keys in the certificate's Secret, want ca.crt, ca.p12 and its password", n)
	}
}

// What Raft clients hold ends with the old authority, and nobody has restarted them
// all the year.
func TestWhatRaftClientsHoldIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.nobodyReads()
	w.replace(authorities.Cluster)
	w.settle()

	for _, later := range []time.Duration{340 * authority.Day, 350 * authority.Day, 357 * authority.Day} {
		w.clock.SetTime(start().Add(later))
		w.settle()
	}
	w.wantRestarts(0)
	w.clock.SetTime(start().Add(359 * authority.Day))
	w.settle()

	w.wantRestarts(1)
	w.wantValid()
	if anchors := w.anchors(authorities.Cluster); anchors[firstV] != "" {
		t.Errorf("anchors are %v, with the old one among them", anchors)
	}
	w.clock.SetTime(start().Add(366 * authority.Day))
	w.settle()
	w.wantRestarts(1)
	w.wantValid()
}

func TestACompromisedKeyOfAUsersIsReplacedAlthoughNothingCrossSigns(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	w.nobodyReads()
	w.annotate(&corev1.Secret{}, "my-cluster-ca", map[string]any{"keyturn.dev/distrust": "now"})
	w.replaceOwn(caNamed(t, "corporate two", 1000*authority.Day), "1", nil)

	w.settle()

	w.wantOwn("corporate two")
}

func TestTheStatesOfAReplacement(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	clear(w.ways)

	w.replace(authorities.Cluster)
	w.settle()
	w.restartEach()

	want := map[string]string{
		nextV:  "UNTRUSTED TRUSTED_UNUSED TRUSTED_IN_USE_ALL",
		firstV: "PHASE_OUT ",
	}
	for anchor, way := range want {
		// With several nodes, some present the new leaf before others do.
		got := strings.ReplaceAll(strings.Join(words(w.ways[anchor]), " "), "TRUSTED_IN_USE_ANY ", "")
		if got != way {
			t.Errorf("%s goes %q, want %q", anchor, got, way)
		}
	}
}

func words(states []trust.State) []string {
	out := make([]string, 0, len(states))
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

func TestTheStatesOfANewCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	got := strings.Join(words(w.ways[firstV]), " ")
	if want := "UNTRUSTED TRUSTED_UNUSED TRUSTED_IN_USE_ALL"; got != want {
		t.Errorf("the anchor goes %q, want %q", got, want)
	}
}

func TestAClusterWithoutTrustedCertsGetsThemAsTrusted(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	pods := w.podUIDs()
	w.delete(&corev1.Secret{}, "my-cluster-ca-trusted-certs")
	clear(w.ways)
	w.startOperator()

	w.settle()

	got := strings.Join(words(w.ways[firstV]), " ")
	if want := "TRUSTED_UNUSED TRUSTED_IN_USE_ALL"; got != want {
		t.Errorf("the anchor goes %q, want %q", got, want)
	}
	if !maps.Equal(pods, w.podUIDs()) {
		t.Errorf("restarted: %v, and the servers prove that they trust it", w.faulty.podsDeleted)
	}
}

func TestTheKeyOfTheOldAuthorityIsKeptUnderItsDate(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	old, password := w.secret("my-cluster-ca").Data[authority.KeyKey], w.secret("my-cluster-ca-cert").Data["ca.password"]

	w.replace(authorities.Cluster)
	w.settle()

	keys, certs := w.secret("my-cluster-ca"), w.secret("my-cluster-ca-cert")
	if bytes.Equal(keys.Data[authority.KeyKey], old) || keys.Annotations[authorities.ForceReplaceAnnotation] != "" {
		t.Error("the key is still the old one, or still asked for")
	}
	kept := slices.ContainsFunc(slices.Sorted(maps.Keys(keys.Data)), func(name string) bool {
		return strings.HasPrefix(name, "ca-2") && bytes.Equal(keys.Data[name], old)
	})
	if !kept {
		t.Errorf("the key's Secret holds %v, and not the old key", slices.Sorted(maps.Keys(keys.Data)))
	}
	for name := range keys.Data {
		if strings.HasPrefix(name, "next-") {
			t.Errorf("%s is still pending", name)
		}
	}
	if keys.Annotations[authorities.KeyGenerationAnnotation] != "1" || certs.Annotations[authorities.CertGenerationAnnotation] != "1" {
		t.Errorf("generations are %v and %v, want 1 and 1", keys.Annotations, certs.Annotations)
	}
	if !bytes.Equal(certs.Data["ca.password"], password) {
		t.Error("the password of the store has changed with the certificate")
	}
	if dated := datedEntries(certs); len(dated) != 1 || w.first(certs.Data[dated[0]]).Subject.CommonName != firstV {
		t.Errorf("dated entries are %v, want one, of the old certificate", dated)
	}
}

func datedEntries(secret *corev1.Secret) []string {
	var names []string
	for name := range secret.Data {
		if strings.HasPrefix(name, "ca-2") && strings.HasSuffix(name, ".crt") {
			names = append(names, name)
		}
	}
	return names
}

func TestPodsTellTheGenerationsOfWhatTheyPresent(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()

	for name := range w.podUIDs() {
		var pod corev1.Pod
		w.get(name, &pod)
		for annotation, want := range map[string]string{
			authorities.ClusterCertGenerationAnnotation: "1",
			authorities.ClusterKeyGenerationAnnotation:  "1",
			"strimzi.io/server-cert-hash":               pki.SHA1Name(w.leafOf(name)),
		} {
			if got := pod.Annotations[annotation]; got != want {
				t.Errorf("pod %s: %s is %q, want %q", name, annotation, got, want)
			}
		}
	}
}

func TestKubeletsThatLagHoldUpNobodyForGood(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-0"], w.lag["my-dual-1"] = 2, 5

	w.replace(authorities.Cluster)
	w.settle()

	w.wantRemainder(firstV, nextV)
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v", w.faulty.podsDeleted)
	}
}

func TestAServerMayStartAgainInEveryPhase(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-2"] = 2
	w.replace(authorities.Cluster)

	for i := range 18 {
		w.run(2) // in one of them it has been polled
		w.restartContainer([]string{"my-dual-0", "my-dual-1", "my-dual-2"}[i%3])
	}
	w.settle()

	w.wantAlone(nextV)
}

func TestANodeThatSaysNothingHoldsUpTheRotationByName(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.silent["my-dual-1"] = true
	w.replace(authorities.Cluster)
	w.run(8)

	if w.presents(1, nextV)() {
		t.Error("a node presents the new authority, and nobody knows what my-dual-1 trusts")
	}
	w.wantCondition(clusterTrust, "my-dual-1")

	delete(w.silent, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
}

func TestAStoppedKubeletKeepsTheOldAuthorityInUse(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.lag["my-dual-1"] = stopped
	w.replace(authorities.Cluster)
	w.run(8)

	// The cross certificate lets the others go ahead.
	w.wantCondition(clusterTrust, "my-dual-1")
	if state := w.anchors(authorities.Cluster)[firstV]; state != trust.InUseAny {
		t.Errorf("the old anchor is %s, and my-dual-1 presents its leaf", state)
	}

	delete(w.lag, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
}

func TestAnOperatorThatIsStartedTellsWhoIsWaitedForAsTheOneBeforeDid(t *testing.T) {
	t.Parallel()
	for name, holdUp := range map[string]func(w *world){
		"an agent is silent":    func(w *world) { w.silent["my-dual-1"] = true },
		"a kubelet has stopped": func(w *world) { w.lag["my-dual-1"] = stopped },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			holdUp(w)
			w.replace(authorities.Cluster)
			w.run(12)
			told, recorded := w.status(t.Context()), w.record()

			w.startOperator()
			w.run(4)

			if again := w.status(t.Context()); again != told {
				t.Errorf("the status was\n%s\nand is\n%s", told, again)
			}
			if again := w.record(); again != recorded {
				t.Errorf("recorded was\n%s\nand is\n%s", recorded, again)
			}
		})
	}
}

func (w *world) record() string {
	w.t.Helper()
	var recorded corev1.ConfigMap
	w.get(rotation.ConfigMapName(clusterName), &recorded)
	return recorded.ResourceVersion + "\n" + string(recorded.BinaryData[rotation.Key(string(authorities.Cluster))])
}

func TestARotationGoesOnByItselfWithoutReload(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()

	w.replace(authorities.Cluster)
	w.settle()

	w.wantAlone(nextV)
	w.wantRestarts(2)
}

func TestWithoutACrossCertificateAndReloadEachNodeStartsThreeTimes(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.classic()
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()

	w.delete(&corev1.Secret{}, "my-cluster-ca")
	w.settle()

	w.wantAlone(nextV)
	w.wantRestarts(3)
}

func TestReloadMayBeSwitchedOffAfterReloads(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()
	if len(w.persisted) == 0 {
		t.Fatal("nothing was reloaded")
	}

	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("restarted: %v, and all nodes run on what is published", w.faulty.podsDeleted)
	}
	w.restartEach()

	if len(w.persisted) > 0 {
		t.Errorf("settings of reloads are left: %v", w.persisted)
	}
	w.wantAlone(nextV)
}

func TestANodeThatDoesNotReloadIsRestartedAndNamed(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]int{"nothing is loaded": 0, "one listener has loaded": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.failing["my-dual-1"] = good

			w.replace(authorities.Cluster)
			w.settle()

			if len(w.faulty.podsDeleted) == 0 || slices.ContainsFunc(w.faulty.podsDeleted, func(n string) bool { return n != "my-dual-1" }) {
				t.Errorf("restarted: %v, want my-dual-1 alone", w.faulty.podsDeleted)
			}
			if !w.events.says("my-dual-1", "reload") {
				t.Errorf("events are %v, want one that says why my-dual-1 is restarted", w.events.notes)
			}
			w.wantRoles(" replication-9091", "presents "+nextV+" cross-signed by "+firstV+", trusts "+nextV)
		})
	}
}

// clusterTrust is the condition of the cluster CA's rotation, clientsTrust that of
// the clients CA.
const (
	clusterTrust condition.Type = "ClusterCATrust"
	clientsTrust condition.Type = "ClientsCATrust"
)

// classic leaves out who cannot be saved without a cross certificate: whoever never
// reads again, and whoever knows one anchor at a time.
func (w *world) classic() {
	w.pinned = nil
	w.without[readsFirst] = true
}
