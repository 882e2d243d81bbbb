package apitest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/trust"
)

// Secrets that are lost together, in every state of a rotation. Whatever goes, at
// every write and every load everybody accepts everybody, and in the end one
// authority is used, or a condition says what a person has to do.

// loss is a set of Secrets that go at once.
type loss uint8

const (
	theKey loss = 1 << iota
	theCertificate
	theAnchors
	theNodes
	theOperators
	everything loss = 1<<iota - 1
)

func (l loss) has(part loss) bool { return l&part == part }

// String names what is lost.
func (l loss) String() string {
	var parts []string
	for i, name := range []string{"key", "certificate", "trusted-certs", "node Secrets", "operator's certificate"} {
		if l.has(1 << i) {
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, " + ")
}

// stage is how far a rotation has come.
type stage string

const (
	atRest      stage = "at rest"
	isAdmitted  stage = "admitted"
	oneTrusts   stage = "one trusts"
	allTrust    stage = "all trust"
	onePresents stage = "one presents"
	allPresent  stage = "all present"
	inRemainder stage = "remainder"
)

func stages() []stage {
	return []stage{atRest, isAdmitted, oneTrusts, allTrust, onePresents, allPresent, inRemainder}
}

// lossCell is one loss in one state of the rotation of one authority.
type lossCell struct {
	kind  authorities.Kind
	nodes int32
	at    stage
	lost  loss
	// isForgotten is true where the operator is started again then, and remembers nothing of what nodes have reported.
	isForgotten bool
}

// String names the cell.
func (c lossCell) String() string {
	name := fmt.Sprintf("%s of %d/%s/%s", c.kind, c.nodes, c.at, c.lost)
	if c.isForgotten {
		name += " + what is remembered"
	}
	return name
}

// lossesOf are the losses that every state is tried with: each Secret alone, and
// those together that say the same; and every set there is when time does not matter.
func lossesOf() []loss {
	if *wide {
		var all []loss
		for l := loss(1); l <= everything; l++ {
			all = append(all, l)
		}
		return all
	}
	return []loss{
		theKey, theCertificate, theAnchors, theNodes, theOperators,
		theKey | theCertificate, theKey | theAnchors, theCertificate | theAnchors,
		theCertificate | theAnchors | theOperators,
		theKey | theCertificate | theAnchors, theKey | theCertificate | theAnchors | theOperators,
		theKey | theCertificate | theAnchors | theNodes, everything,
	}
}

// lossCells are the cells of this run.
func lossCells() []lossCell {
	var cells []lossCell
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		for _, nodes := range []int32{1, 3} {
			for _, at := range stages() {
				for _, lost := range lossesOf() {
					cells = append(cells, lossCell{kind, nodes, at, lost, false})
					if lost.has(theOperators) { // others are polled again
						cells = append(cells, lossCell{kind, nodes, at, lost, true})
					}
				}
			}
		}
	}
	return slices.DeleteFunc(cells, func(c lossCell) bool { return !isPlayed(c.String()) })
}

func TestWhateverSecretsAreLostInWhateverState(t *testing.T) {
	t.Parallel()
	t.Logf("one in %d of all losses is chosen by -seed=%d", sampled, chosen())
	for _, c := range lossCells() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

func (c lossCell) play(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	w.stores = authority.WithoutStores // they take a fifth of the time
	w.startOperator()
	w.dualRole(c.nodes)
	w.settle()
	w.pin()
	for i := range c.nodes {
		w.lag[fmt.Sprintf("my-dual-%d", i)] = 1 + int(min(i, 1)) // one after the other
	}
	kept := c.reach(w)
	if c.cutsOffWhoKnowsOneCA() {
		w.classic()
	}
	for _, next := range c.remedies() {
		w.run(waitingRounds)
		next.apply(w, kept())
	}
	w.settle()
	w.lockedOut = false
	w.watch()
	c.wantEnd(w)
}

// waitingRounds are enough to come to where nothing goes on by itself, from the
// beginning of a rotation.
const waitingRounds = 16

// remedy is what a person has to do, and the words of the condition that says so.
type remedy struct {
	kind  condition.Type
	words []string
	// secret is put back, without its annotations.
	secret string
}

// remedies are what has to be done by hand before it goes on, one after the other.
func (c lossCell) remedies() []remedy {
	var list []remedy
	if c.nothingShowsIt() {
		cert := c.kind.CertSecret(clusterName)
		list = append(list, remedy{condition.NotReady, []string{cert, "restore the Secret with ca.crt"}, cert})
	}
	if c.holdsLeavesBack() {
		key := c.kind.KeySecret(clusterName)
		list = append(list, remedy{condition.Warning, []string{"my-dual-0", "restore the Secret, or the key of the CA that issued its certificate"}, key})
	}
	return list
}

// nothingShowsIt: the certificate is stored nowhere, the operator does not remember it, and cannot poll agents:
// it has no certificate that they accept, and no CA to issue one.
func (c lossCell) nothingShowsIt() bool {
	return c.kind == authorities.Cluster && c.lost.has(theKey|theCertificate|theAnchors|theOperators) && c.isForgotten
}

// holdsLeavesBack: nobody can sign leaves that others trust.
func (c lossCell) holdsLeavesBack() bool {
	return c.kind == authorities.Cluster && c.lost.has(theKey|theNodes)
}

// apply does what the condition says.
func (r remedy) apply(w *world, kept map[string]files) {
	w.t.Helper()
	w.wantCondition(r.kind, r.words...)
	data := kept[r.secret]
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: r.secret, Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/kind": "Kafka"},
	}}
	if _, exists := w.stored.secrets[r.secret]; exists {
		w.delete(&corev1.Secret{}, r.secret)
	}
	secret.Data = data
	w.create(secret)
}

// reach brings the rotation to its state and plans the loss for that moment. The
// result is what was there before it.
func (c lossCell) reach(w *world) func() map[string]files {
	w.t.Helper()
	var kept map[string]files
	lose := func() {
		kept = w.stored.secrets
		w.lockedOut = c.locksTheOperatorOut()
		w.lose(c.kind, c.lost)
		if c.isForgotten {
			w.startOperator()
		}
	}
	if c.at != atRest {
		w.replace(c.kind)
	}
	if c.at == inRemainder {
		w.settle()
	}
	if c.at == atRest || c.at == inRemainder {
		lose()
	} else {
		w.once(c.reached(w), lose)
	}
	return func() map[string]files { return kept }
}

// locksTheOperatorOut: nodes learn to know it by what is published to them.
func (c lossCell) locksTheOperatorOut() bool {
	return c.lost.has(theOperators) && (c.lost.has(theKey) || c.madeAgain())
}

// madeAgain: the operator does not remember the certificate and cannot poll agents, and the key exists. Until
// a node has mounted all that is written then, its agent rejects the operator.
func (c lossCell) madeAgain() bool {
	return c.kind == authorities.Cluster && c.lost.has(theCertificate|theAnchors|theOperators) && c.isForgotten
}

// reached tells whether the rotation is in the state. Nodes present nothing of the
// clients CA: users do, as soon as the new one signs.
func (c lossCell) reached(w *world) func() bool {
	old, n := c.caNamed(0), int(c.nodes)
	domain := contract.ClusterDomain
	presents := func(n int) func() bool { return w.presents(n, c.caNamed(1)) }
	if c.kind == authorities.Clients {
		domain = contract.ClientsDomain
		presents = func(int) func() bool { return func() bool { return len(w.users) > 1 } }
	}
	trusts := func(n int) func() bool {
		return func() bool {
			return w.count(domain, func(s stores) bool { return slices.Contains(subjects(s.trust), c.caNamed(1)) }) >= n
		}
	}
	switch c.at {
	case isAdmitted:
		return w.admitted(c.kind)
	case oneTrusts:
		return trusts(1)
	case allTrust:
		return trusts(n)
	case onePresents:
		return presents(1)
	default:
		return func() bool { return presents(n)() && w.bundleOf(c.kind)[0] != old }
	}
}

func (c lossCell) caNamed(n int) string { return fmt.Sprintf("%s v%d", c.kind, n) }

// cutsOffWhoKnowsOneCA: nodes present no cross certificate of a key that is lost, so
// whoever does not read both authorities is cut off.
func (c lossCell) cutsOffWhoKnowsOneCA() bool {
	return c.kind == authorities.Cluster && c.lost.has(theKey)
}

// endsWith is the authority that is used in the end.
func (c lossCell) endsWith() string {
	n := 0
	if c.at != atRest {
		n++
	}
	if c.lost.has(theKey) && !c.holdsLeavesBack() {
		n++
	}
	return c.caNamed(n)
}

func (c lossCell) wantEnd(w *world) {
	w.t.Helper()
	if kafka := w.getKafka(); !has(kafka, condition.Ready) {
		w.t.Errorf("conditions are %+v, want Ready", kafka.Status.Conditions)
	}
	want := c.endsWith()
	if read := w.bundleOf(c.kind); len(read) == 0 || read[0] != want {
		w.t.Errorf("ca.crt holds %v, want %s first", read, want)
	}
	if c.kind == authorities.Clients {
		if !w.isAnchor(c.kind, want, trust.TrustedUnused) {
			w.t.Errorf("anchors are %v, want %s trusted", w.anchors(c.kind), want)
		}
		return
	}
	if c.nodes == 1 {
		w.restartEach()
		w.wantAlone(want)
		return
	}
	if !w.isAnchor(c.kind, want, trust.InUseAll) {
		w.t.Errorf("anchors are %v, want %s used by all", w.anchors(c.kind), want)
	}
	if !w.presents(int(c.nodes), want)() {
		w.t.Errorf("not all present %s: %v", want, w.roles())
	}
}

// lose deletes Secrets by somebody's hand, at once.
func (w *world) lose(kind authorities.Kind, lost loss) {
	w.t.Helper()
	names := map[loss][]string{
		theKey: {kind.KeySecret(clusterName)}, theCertificate: {kind.CertSecret(clusterName)},
		theAnchors: {kind.TrustedCertsSecret(clusterName)}, theOperators: {clusterName + "-cluster-operator-certs"},
	}
	for _, s := range w.servers {
		names[theNodes] = append(names[theNodes], s.pod)
	}
	for part, secrets := range names {
		for _, name := range secrets {
			if !lost.has(part) {
				continue
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
			if err := w.api.Delete(w.t.Context(), secret); err != nil {
				w.t.Fatal(err)
			}
			w.did("deleted", secret)
		}
	}
	w.watch()
}
