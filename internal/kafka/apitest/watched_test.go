package apitest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Every conversation of the world is watched: whoever of its sides gets something
// of a stranger's, the other side is heard.
func TestEveryConversationIsWatched(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	strange := newCA(t)
	strangers := stores{chain: bundle(leafBy(t, strange, "stranger", start())), trust: bundle(strange.Certificate())}
	first, _ := w.serverOf("my-dual-0")
	for name, c := range map[string]struct {
		// disturb returns how to undo it.
		disturb func() func()
		// refusals are of the form "presenter is refused by verifier".
		refusals []string
	}{
		"inter-broker listener": {
			disturb: func() func() { return first.runOn(contract.ReplicationListener, strangers) },
			refusals: []string{
				"my-dual-0 replication-9091 is refused by my-dual-1 replication-9091", "my-dual-1 replication-9091 is refused by my-dual-0 replication-9091",
				"my-dual-0 replication-9091 is refused by the operator", "the operator is refused by my-dual-0 replication-9091",
			},
		},
		"controller listener": {
			disturb: func() func() { return first.runOn(contract.ControlPlaneListener, strangers) },
			refusals: []string{
				"my-dual-0 controlplane-9090 is refused by my-dual-1 raft", "my-dual-1 raft is refused by my-dual-0 controlplane-9090",
				"my-dual-0 controlplane-9090 is refused by the operator", "the operator is refused by my-dual-0 controlplane-9090",
			},
		},
		"Raft client": {
			disturb: func() func() {
				before := first.raft
				first.raft = strangers
				return func() { first.raft = before }
			},
			refusals: []string{
				"my-dual-0 raft is refused by my-dual-1 controlplane-9090", "my-dual-1 controlplane-9090 is refused by my-dual-0 raft",
				"my-dual-0 raft is refused by my-dual-0 controlplane-9090",
			},
		},
		"client listener": {
			disturb: func() func() { return first.runOn("mtls-9094", strangers) },
			refusals: []string{
				"my-dual-0 mtls-9094 is refused by " + string(readsBundle), "my-dual-0 mtls-9094 is refused by " + string(readsFirst),
				"my-dual-0 mtls-9094 is refused by " + string(readsAllFiles), "my-dual-0 mtls-9094 is refused by " + string(readsNothing),
				"user 0 of clients-ca v0 is refused by my-dual-0 mtls-9094",
			},
		},
		"the operator": {
			disturb: func() func() {
				before := w.stored.secrets
				w.stored.secrets = maps.Clone(before)
				w.stored.secrets["my-cluster-operator-certs"] = files{"cluster-operator.crt": pki.EncodeBundle(strangers.chain...)}
				return func() { w.stored.secrets = before }
			},
			refusals: []string{
				"the operator is refused by my-dual-0 agent", "the operator is refused by my-dual-1 replication-9091",
				"the operator is refused by my-dual-2 controlplane-9090",
			},
		},
		"what the operator trusts": {
			disturb: func() func() {
				before := *w.access
				w.access.Credentials.Anchors = strangers.trust
				w.access.Leaves = func(string) []string { return nil }
				return func() { *w.access = before }
			},
			refusals: []string{"my-dual-0 agent is refused by the operator", "my-dual-1 replication-9091 is refused by the operator"},
		},
		"what applications read": {
			disturb: func() func() {
				before := w.offers
				w.offers = []offered{{since: w.clock.Now(), files: files{authority.CertKey: pki.EncodeBundle(strangers.trust...)}}}
				return func() { w.offers = before }
			},
			refusals: []string{
				"my-dual-0 tls-9093 is refused by " + string(readsBundle), "my-dual-1 mtls-9094 is refused by " + string(readsFirst),
				"my-dual-2 mtls-9094 is refused by " + string(readsAllFiles),
			},
		},
		"users": {
			disturb: func() func() {
				before := w.users
				w.users = []talker{{name: "a stranger", holdings: []holding{{chain: strangers.chain}}}}
				return func() { w.users = before }
			},
			refusals: []string{"a stranger is refused by my-dual-0 mtls-9094", "a stranger is refused by my-dual-2 tls-9093"},
		},
		"what is mounted": {
			disturb: func() func() { return w.remount("my-dual-0", nodeVolume, w.withLeaf("my-dual-0", strange)) },
			refusals: []string{
				"my-dual-0 agent is refused by the operator", "my-dual-0 raft is refused by my-dual-1 controlplane-9090",
				"my-dual-0 replication-9091 is refused by my-dual-1 replication-9091",
			},
		},
	} {
		undo := c.disturb()
		heard := w.safety.breaches(w.talks(), w.clock.Now())
		undo()
		for _, want := range c.refusals {
			if !slices.ContainsFunc(heard, func(line string) bool { return strings.HasPrefix(withoutMoments(line), want+":") }) {
				t.Errorf("%s: nobody is heard that %s, of\n%s", name, want, strings.Join(heard, "\n"))
			}
		}
	}
	if left := w.safety.breaches(w.talks(), w.clock.Now()); len(left) > 0 {
		t.Errorf("undisturbed: %v", left)
	}
}

// runOn lets a listener run on something else, and returns how to undo it.
func (s *server) runOn(listener publication.Role, other stores) func() {
	before := s.loaded[listener]
	s.loaded[listener] = other
	return func() { s.loaded[listener] = before }
}

// remount gives a pod another volume, and returns how to undo it.
func (w *world) remount(pod string, kind volume, other files) func() {
	before := w.mounted[pod].files[kind]
	w.mounted[pod].files[kind] = other
	return func() { w.mounted[pod].files[kind] = before }
}

// withLeaf is the content of a node's Secret with a leaf of another CA.
func (w *world) withLeaf(pod string, ca pki.Authority) files {
	w.t.Helper()
	leaf := leafBy(w.t, ca, "stranger", w.clock.Now())
	content := maps.Clone(w.stored.secrets[pod])
	published, err := publication.ParsePublication(content[agent.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	published.Identities[publication.NodeIdentity], published.Chain = fingerprint(leaf), nil
	content[pod+".crt"] = pki.EncodeBundle(leaf)
	if content[agent.PublicationKey], err = published.Encode(); err != nil {
		w.t.Fatal(err)
	}
	return content
}

// withoutMoments leaves out what stands in parentheses.
func withoutMoments(line string) string {
	for _, moment := range []string{atPresent, ifStarted, ifMadeNew} {
		line = strings.ReplaceAll(line, " ("+moment+")", "")
	}
	if before, after, found := strings.Cut(line, " (as of "); found {
		_, rest, _ := strings.Cut(after, ")")
		line = before + rest
	}
	return strings.ReplaceAll(line, " ()", "")
}
