package stores_test

import (
	"crypto/x509"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, w *world) stores.Rendered {
	t.Helper()
	matched, err := stores.Match(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	return matched.Render("/run/keyturn/stores")
}

func TestPropertiesNameTheStoresOfEachListener(t *testing.T) {
	t.Parallel()
	const golden = "testdata/server.properties"
	// Keys are generated for each run, and their digests with them.
	got := regexp.MustCompile(`-[0-9a-f]{32}\.pem`).ReplaceAll(render(t, newWorld(t)).Properties, []byte("-DIGEST.pem"))
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

// store returns the one file whose name begins with the prefix.
func store(t *testing.T, r stores.Rendered, prefix string) []byte {
	t.Helper()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.Files)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	started := slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(string(r.Properties), "/"+name+"\n") })
	if len(started) != 1 {
		t.Fatalf("files %v begin with %s and are named by the configuration, want one", started, prefix)
	}
	return r.Files[started[0]]
}

func TestStoresHoldWhatTheyWereMadeFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := render(t, w)
	for listener, want := range map[publication.Role]struct {
		identity stores.Identity
		trust    *x509.Certificate
	}{
		contract.ReplicationListener: {w.node, w.clusterCA.Certificate()},
		custom:                       {w.listenerIdentity, w.clientsCA.Certificate()},
	} {
		key, chain, found := strings.Cut(string(store(t, r, string(listener)+"-key-")), "-----BEGIN CERTIFICATE-----")
		if !found {
			t.Fatalf("the key store of %s holds no certificate", listener)
		}
		private, err := pki.ParsePrivateKey([]byte(key))
		if err != nil || private.ID() != want.identity.Key.ID() {
			t.Errorf("the key store of %s holds another key: %v", listener, err)
		}
		certs, err := pki.ParseBundle([]byte("-----BEGIN CERTIFICATE-----" + chain))
		if err != nil || len(certs) != len(want.identity.Chain) || !certs[0].Equal(want.identity.Chain[0]) {
			t.Errorf("the key store of %s holds another chain: %v", listener, err)
		}
		trust, err := pki.ParseBundle(store(t, r, string(listener)+"-trust-"))
		if err != nil || len(trust) != 1 || !trust[0].Equal(want.trust) {
			t.Errorf("the trust store of %s holds other anchors: %v", listener, err)
		}
	}
}

func TestStoreNamesChangeWithTheirCertificatesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := render(t, w)
	if diff := cmp.Diff(before, render(t, w)); diff != "" {
		t.Errorf("rendered twice (-first +second):\n%s", diff)
	}
	// The same leaf with its issuer's certificate is another store.
	w.node.Chain = append(w.node.Chain, w.clusterCA.Certificate())
	agenttest.PutIdentity(w.Node, podName, w.node)
	after := render(t, w)
	changed := slices.DeleteFunc(slices.Sorted(maps.Keys(after.Files)), func(name string) bool {
		_, same := before.Files[name]
		return same
	})
	if len(changed) != 2 || !strings.HasPrefix(changed[0], "controlplane-9090-key-") || !strings.HasPrefix(changed[1], "replication-9091-key-") {
		t.Errorf("new stores %v, want the key stores that present the node's leaf", changed)
	}
}

func TestReportTellsTheEarliestEndOfTheChain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newWorld(t)
	short := agenttest.Authority(t, "ends first", now.Add(-12*time.Hour))
	w.node.Chain = append(w.node.Chain, short.Certificate())
	report := publication.RoleReportOf(w.node.Chain, []*x509.Certificate{w.clusterCA.Certificate()})
	if !report.NotAfter.Equal(short.Certificate().NotAfter) {
		t.Errorf("not after %s, want %s", report.NotAfter, short.Certificate().NotAfter)
	}
	if report.Presents != w.node.Fingerprint() {
		t.Errorf("presents %s, want the leaf", report.Presents)
	}
}

func TestAgentFacesItsOperatorWithWhatIsMounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coming := agenttest.Authority(t, "not mounted yet", time.Now())
	w.publication.Revision++
	w.publication.Operators = []string{"aa"}
	w.publication.Trust[publication.AgentRole] = []string{fingerprint(w.clusterCA), fingerprint(coming)}
	w.publish(t)
	facing, err := stores.Face(w.Mounted)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{fingerprint(w.clusterCA)}, facing.Report().Trusts); diff != "" {
		t.Errorf("trusts (-want +got):\n%s", diff)
	}
	if facing.Revision != 4 || facing.Identity.Fingerprint() != w.node.Fingerprint() || !slices.Equal(facing.Operators, []string{"aa"}) {
		t.Errorf("facing %+v", facing)
	}
}

func TestAgentFacesNobodyWithoutItsLeaf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.Node, podName+".key")
	if facing, err := stores.Face(w.Mounted); err == nil {
		t.Errorf("facing revision %d, want an error", facing.Revision)
	}
}
