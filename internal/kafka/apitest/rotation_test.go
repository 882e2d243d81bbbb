package apitest

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// What people ask an authority for, and how they see where that stands.

const (
	asked  = "true"
	firstV = "cluster-ca v0"
	nextV  = "cluster-ca v1"
)

func (w *world) replace(kind authorities.Kind) {
	w.t.Helper()
	w.annotate(&corev1.Secret{}, kind.KeySecret(clusterName), map[string]any{authorities.ForceReplaceAnnotation: asked})
}

func (w *world) renew(kind authorities.Kind) {
	w.t.Helper()
	w.annotate(&corev1.Secret{}, kind.CertSecret(clusterName), map[string]any{authorities.ForceRenewAnnotation: asked})
}

func (w *world) abort(kind authorities.Kind) {
	w.t.Helper()
	w.annotate(&corev1.Secret{}, kind.KeySecret(clusterName), map[string]any{"keyturn.dev/abort-replace": asked})
}

// distrustNow says that every anchor but the one to come is compromised: whoever
// has pinned one is cut off, which is what is wanted.
func (w *world) distrustNow(kind authorities.Kind) {
	w.t.Helper()
	w.pinned = nil
	w.annotate(&corev1.Secret{}, kind.KeySecret(clusterName), map[string]any{"keyturn.dev/distrust": "now"})
}

// pin is an application that takes the first CA now and never reads again.
func (w *world) pin() {
	w.t.Helper()
	w.pinned = w.caCertificate(authorities.Cluster)
}

// turning is a world whose cluster is at rest and has clients of every kind.
func turning(t *testing.T, replicas int32) *world {
	t.Helper()
	w := newWorld(t)
	w.dualRole(replicas)
	w.settle()
	w.pin()
	return w
}

// act is something that is done as soon as something else has come about.
type act struct {
	when func() bool
	do   func()
}

// once plans an act for the time when a rotation has come so far. Acts happen one
// after the other; a world does not come to rest before the last.
func (w *world) once(when func() bool, do func()) { w.acts = append(w.acts, act{when, do}) }

// act does what it is time for.
func (w *world) act() bool {
	if len(w.acts) == 0 || !w.acts[0].when() {
		return false
	}
	next := w.acts[0]
	w.acts = w.acts[1:]
	w.trace("it has come so far")
	next.do()
	return true
}

// How far a rotation has come.

// admitted: the trusted-certs Secret holds a second anchor.
func (w *world) admitted(kind authorities.Kind) func() bool {
	return func() bool { return len(w.anchors(kind)) > 1 }
}

// trusts counts the servers of which every listener of the domain trusts the CA.
func (w *world) trusts(n int, ca string) func() bool {
	return func() bool {
		return w.count(contract.ClusterDomain, func(s stores) bool { return slices.Contains(subjects(s.trust), ca) }) >= n
	}
}

// presents counts the servers of which every listener presents a leaf of the CA.
func (w *world) presents(n int, ca string) func() bool {
	return func() bool {
		return w.count(contract.ClusterDomain, func(s stores) bool { return s.chain[0].Issuer.CommonName == ca }) >= n
	}
}

// count counts the servers of which every listener that trusts the domain fits.
func (w *world) count(domain publication.Domain, fits func(stores) bool) int {
	n := 0
	for _, s := range w.servers {
		all := true
		for _, store := range s.started.config.Stores {
			if store.Trust == domain && listens(s.started.config, store.Role) {
				all = all && fits(s.loaded[store.Role])
			}
		}
		if all {
			n++
		}
	}
	return n
}

// What is to be seen.

// anchors are those of a trusted-certs Secret, with their states.
func (w *world) anchors(kind authorities.Kind) map[string]trust.State {
	states := map[string]trust.State{}
	w.eachAnchor(kind, func(name string, state trust.State) { states[name] = state })
	return states
}

// isAnchor reports whether an anchor of that name has that state. A certificate that is
// made again under its key is another anchor with the name of the one before.
func (w *world) isAnchor(kind authorities.Kind, name string, state trust.State) bool {
	found := false
	w.eachAnchor(kind, func(n string, s trust.State) { found = found || n == name && s == state })
	return found
}

func (w *world) eachAnchor(kind authorities.Kind, see func(name string, state trust.State)) {
	stored := w.stored.secrets[kind.TrustedCertsSecret(clusterName)]
	for key, text := range stored {
		name, isCert := strings.CutSuffix(key, ".crt")
		if certs := w.certs.in(text); isCert && len(certs) == 1 {
			see(certs[0].Subject.CommonName, trust.State(stored[name+".state"]))
		}
	}
}

// bundleOf is what ca.crt holds.
func (w *world) bundleOf(kind authorities.Kind) []string {
	return subjects(w.certs.in(w.stored.secrets[kind.CertSecret(clusterName)][authority.CertKey]))
}

func subjects(certs []*x509.Certificate) []string {
	names := make([]string, 0, len(certs))
	for _, cert := range certs {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}

// said is what a role presents and trusts, in words.
func said(s stores) string {
	if len(s.chain) == 0 {
		return "nothing"
	}
	crossSigners := make([]string, 0, len(s.chain))
	for _, cert := range s.chain[1:] {
		crossSigners = append(crossSigners, cert.Issuer.CommonName)
	}
	presents := "presents " + s.chain[0].Issuer.CommonName
	if len(crossSigners) > 0 {
		presents += " cross-signed by " + strings.Join(crossSigners, ", ")
	}
	return presents + ", trusts " + strings.Join(slices.Sorted(slices.Values(subjects(s.trust))), ", ")
}

// roles are the roles of all servers, in words.
func (w *world) roles() map[string]string {
	roles := map[string]string{}
	for _, s := range w.servers {
		for listener, loaded := range s.loaded {
			if listens(s.started.config, listener) {
				roles[s.pod+" "+string(listener)] = said(loaded)
			}
		}
		roles[s.pod+" raft"] = said(s.raft)
	}
	return roles
}

// standing is all of it, in lines that do not differ from run to run.
func (w *world) standing() []string {
	var lines []string
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		// The entries after the first one are in the order of their fingerprints.
		bundle := w.bundleOf(kind)
		slices.Sort(bundle[min(1, len(bundle)):])
		lines = append(lines, fmt.Sprintf("ca.crt of the %s: %s", kind, strings.Join(bundle, ", ")))
		w.eachAnchor(kind, func(name string, state trust.State) {
			lines = append(lines, fmt.Sprintf("anchor %s: %s", name, state))
		})
	}
	for role, words := range w.roles() {
		if strings.HasSuffix(role, " raft") {
			// What it trusts besides depends on when it was started, and harms nobody.
			words, _, _ = strings.Cut(words, ", trusts ")
		}
		lines = append(lines, role+" "+words)
	}
	slices.Sort(lines)
	return lines
}

// wantRoles checks the roles whose names have the suffix, on all servers.
func (w *world) wantRoles(suffix, want string) {
	w.t.Helper()
	found := false
	for role, words := range w.roles() {
		if strings.HasSuffix(role, suffix) {
			found = true
			if words != want {
				w.t.Errorf("%s: %s, want: %s", role, words, want)
			}
		}
	}
	if !found {
		w.t.Errorf("no server has the role %s", suffix)
	}
}

// wantAnchors checks the anchors of an authority and what applications read.
func (w *world) wantAnchors(kind authorities.Kind, states map[string]trust.State, read ...string) {
	w.t.Helper()
	if got := w.anchors(kind); !maps.Equal(got, states) {
		w.t.Errorf("the anchors of the %s are %v, want %v", kind, got, states)
	}
	if got := w.bundleOf(kind); !slices.Equal(got, read) {
		w.t.Errorf("ca.crt of the %s holds %v, want %v", kind, got, read)
	}
}

// wantRemainder checks that the cluster CA has been replaced as far as that goes
// without restarts.
func (w *world) wantRemainder(before, now string) {
	w.t.Helper()
	w.wantAnchors(authorities.Cluster, map[string]trust.State{now: trust.InUseAll, before: trust.PhaseOut}, now, before)
	w.wantRoles(" replication-9091", "presents "+now+" cross-signed by "+before+", trusts "+now)
	w.wantRoles(" controlplane-9090", "presents "+now+" cross-signed by "+before+", trusts "+before+", "+now)
}

// wantAlone checks that a cluster CA is trusted and used, and nothing else. What a
// Raft client trusts more than it needs stays in its memory, and harms nobody.
func (w *world) wantAlone(ca string) {
	w.t.Helper()
	w.wantAnchors(authorities.Cluster, map[string]trust.State{ca: trust.InUseAll}, ca)
	for role, words := range w.roles() {
		loads := strings.HasSuffix(role, " replication-9091") || strings.HasSuffix(role, " controlplane-9090")
		if !strings.HasPrefix(words, "presents "+ca) || loads && !strings.HasSuffix(words, ", trusts "+ca) {
			w.t.Errorf("%s %s, want %s alone", role, words, ca)
		}
	}
	if operator := w.first(w.secret("my-cluster-operator-certs").Data["cluster-operator.crt"]); operator.Issuer.CommonName != ca {
		w.t.Errorf("the operator presents %s", operator.Issuer.CommonName)
	}
}

// wantRestarts checks how often the operator restarted each node.
func (w *world) wantRestarts(each int) {
	w.t.Helper()
	for name, n := range w.restarts() {
		if n != each {
			w.t.Errorf("%s was restarted %d times, want %d", name, n, each)
		}
	}
}

// restarts counts how often each pod was made again.
func (w *world) restarts() map[string]int {
	restarts := map[string]int{}
	for name := range w.podUIDs() {
		restarts[name] = 0
	}
	for _, name := range w.faulty.podsDeleted {
		restarts[name]++
	}
	return restarts
}

// restartEach is a person who deletes one pod after the other.
func (w *world) restartEach() {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(w.podUIDs())) {
		w.delete(&corev1.Pod{}, name)
		w.run(3)
	}
	w.settle()
}

func TestAStepThatCannotBeWrittenIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.faulty.refuses = func(write kubetest.Write) error {
		if write.Target() == "Secret my-dual-1" {
			return apierrors.NewForbidden(corev1.Resource("secrets"), "my-dual-1", errors.New("the quota is used up"))
		}
		return nil
	}

	w.replace(authorities.Cluster)
	for range 40 {
		_, _ = w.round(t.Context()) // the pass fails, which is told as well
	}

	told := map[string]int{}
	for _, note := range w.events.notes {
		told[note]++
	}
	for note, times := range told {
		if times > 1 {
			t.Errorf("told %d times: %s", times, note)
		}
	}
}
