package publication_test

import (
	"crypto/x509"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	tls  publication.Role = "tls-9093"
	mtls publication.Role = "mtls-9094"

	replication publication.Role = "replication-9091"

	clusterDomain publication.Domain = "cluster"
	clientsDomain publication.Domain = "clients"
)

func now() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 500, time.UTC) }

// certificate returns one that is different for each name. Only its bytes count.
func certificate(name string) *x509.Certificate { return &x509.Certificate{Raw: []byte(name)} }

func fingerprint(name string) string { return pki.FingerprintOf(certificate(name)).String() }

// content is a node with an own certificate on the listener tls.
func content() publication.Content {
	return publication.Content{
		Leaves: map[string]*x509.Certificate{
			publication.NodeIdentity: certificate("leaf"), string(tls): certificate("custom"),
		},
		Chain: []*x509.Certificate{certificate("cross")},
		Trust: map[publication.Role][]string{
			publication.AgentRole: cluster(), replication: cluster(), tls: {"clients"}, mtls: {"clients"},
		},
		Operators: []*x509.Certificate{certificate("operator")},
	}
}

func cluster() []string { return []string{"cluster", "cluster before"} }

func stores() []publication.Store {
	return []publication.Store{
		{Role: replication, Identity: publication.NodeIdentity, Trust: clusterDomain},
		{Role: tls, Identity: string(tls), Trust: clientsDomain},
		{Role: mtls, Identity: publication.NodeIdentity, Trust: clientsDomain},
	}
}

func TestAPublicationNamesWhatEachListenerPresentsAndTrusts(t *testing.T) {
	t.Parallel()
	cluster := []string{"cluster", "cluster before"}
	want := publication.Publication{
		Revision:   1,
		Identities: map[string]string{publication.NodeIdentity: fingerprint("leaf"), string(tls): fingerprint("custom")},
		Chain:      []string{fingerprint("cross")},
		Trust: map[publication.Role][]string{
			publication.AgentRole: cluster, replication: cluster,
			tls: {"clients"}, mtls: {"clients"},
		},
		Operators:   []string{fingerprint("operator")},
		PublishedAt: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC),
	}

	got := publication.Next(publication.Publication{}, 0, content(), now())

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("publication (-want +got):\n%s", diff)
	}
}

func TestRevisionsOnlyGrow(t *testing.T) {
	t.Parallel()
	same := publication.Next(publication.Publication{Revision: 6}, 0, content(), now())
	other := same
	other.Operators = []string{fingerprint("another operator")}
	for name, c := range map[string]struct {
		previous publication.Publication
		pinned   int64
		want     int64
	}{
		"the same content keeps its revision":                         {previous: same, pinned: 7, want: 7},
		"the same content keeps it when no pod is pinned":             {previous: same, want: 7},
		"other content gets the next one":                             {previous: other, pinned: 7, want: 8},
		"a lost Secret goes on after what a pod is pinned to":         {pinned: 7, want: 8},
		"a restored Secret goes on after what a pod is pinned to":     {previous: same, pinned: 9, want: 10},
		"a pod that is pinned to an older one does not matter":        {previous: other, pinned: 2, want: 8},
		"the first one is 1":                                          {want: 1},
		"a stored one that has no revision is not a publication":      {previous: withRevision(same, 0), want: 1},
		"a number beyond all counting that somebody wrote on a pod":   {previous: same, pinned: math.MaxInt64, want: 7},
		"one that would leave none to count on with":                  {previous: other, pinned: publication.MaxRevision, want: 8},
		"one that a pod may have been told of":                        {previous: same, pinned: publication.MaxRevision / 2, want: publication.MaxRevision/2 + 1},
		"a stored one beyond all counting goes on after what is told": {previous: withRevision(same, math.MaxInt64), pinned: 7, want: 8},
		"a lost Secret without pods starts over and that is right":    {pinned: 0, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := publication.Next(c.previous, c.pinned, content(), now()); got.Revision != c.want {
				t.Errorf("revision %d, want %d", got.Revision, c.want)
			}
		})
	}
}

func withRevision(p publication.Publication, revision int64) publication.Publication {
	p.Revision = revision
	return p
}

func TestAPublicationThatSaysTheSameIsTheVeryOneThereWas(t *testing.T) {
	t.Parallel()
	first := publication.Next(publication.Publication{}, 0, content(), now())

	again := publication.Next(first, 1, content(), now().Add(time.Hour))

	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the publication has changed (-first +again):\n%s", diff)
	}
}

func TestAPublicationNamesLeavesForProofs(t *testing.T) {
	t.Parallel()
	before := publication.Next(publication.Publication{}, 0, content(), now())
	with := content()
	with.Proofs = map[pki.KeyID]*x509.Certificate{{1}: certificate("proof")}

	named := publication.Next(before, 0, with, now())
	again := publication.Next(named, 0, with, now())
	without := publication.Next(again, 0, content(), now())

	if want := map[string]string{pki.KeyID{1}.String(): fingerprint("proof")}; !maps.Equal(named.Proofs, want) || named.Revision != before.Revision+1 {
		t.Errorf("revision %d names %v, want %v in the next after %d", named.Revision, named.Proofs, want, before.Revision)
	}
	if again.Revision != named.Revision {
		t.Errorf("revision %d although nothing has changed since %d", again.Revision, named.Revision)
	}
	if without.Revision != named.Revision+1 || without.Proofs != nil {
		t.Errorf("revision %d names %v, want none in the next after %d", without.Revision, without.Proofs, named.Revision)
	}
}
