package publication_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/publication"
)

// shape is what makes a report long.
type shape struct {
	// clients are the listeners of clients; anchors those that each role trusts; chain
	// what is presented after each leaf; loading the publications that may be loaded.
	clients, anchors, chain, loading int
	// own is how long the certificates are that listeners of clients have of their own;
	// 0 when they present the node's.
	own int
}

// Lengths of certificates of RSA keys of 4,096 bits: of an authority, and of a leaf with
// 30 names.
const (
	authorityDER = 1400
	leafDER      = 3000
)

func numbered(kind string, i int) string {
	return fmt.Sprintf("%-64x", fmt.Sprintf("%s %d", kind, i))[:64]
}

func fingerprintsOf(kind string, count int) []string {
	list := make([]string, 0, count)
	for i := range count {
		list = append(list, strings.ReplaceAll(numbered(kind, i), " ", "0"))
	}
	return list
}

// report is one that an honest agent may give.
func (s shape) report() publication.Report {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clusters, clients, chain := fingerprintsOf("cluster", s.anchors), fingerprintsOf("clients", s.anchors), fingerprintsOf("chain", s.chain)
	leaf := fingerprintsOf("leaf", 1)[0]
	published := publication.Publication{
		Revision: 1 << 20, Identities: map[string]string{publication.NodeIdentity: leaf}, Trust: map[publication.Role][]string{},
		Operators: fingerprintsOf("operator", s.anchors), Chain: chain, Configuration: "01234567", Proofs: map[string]string{}, PublishedAt: now,
	}
	report := publication.Report{
		Revision: published.Revision, StartedAt: now, Roles: map[publication.Role]publication.RoleReport{}, Certificates: map[string][]byte{},
		Reload: publication.ReloadReport{Revision: published.Revision, Failure: strings.Repeat("x", 500), Refused: true},
	}
	for i, key := range clients {
		published.Proofs[key] = clusters[i]
	}
	for _, named := range [][]string{clusters, clients, chain} {
		for _, name := range named {
			report.Certificates[name] = make([]byte, authorityDER)
		}
	}
	report.Certificates[leaf] = make([]byte, leafDER)
	add := func(role publication.Role, trusts []string, presents string) {
		published.Trust[role] = trusts
		report.Roles[role] = publication.RoleReport{Trusts: trusts, Presents: presents, Chain: chain, NotAfter: now, Dynamic: true}
	}
	for _, role := range own() {
		add(role, clusters, leaf)
	}
	for i, own := range fingerprintsOf("own", s.clients) {
		listener := publication.Role(fmt.Sprintf("listener%03d-%d", i, 10000+i))
		if s.own > 0 {
			report.Certificates[own] = make([]byte, s.own)
			published.Identities[string(listener)] = own
			add(listener, clients, own)
		} else {
			add(listener, clients, leaf)
		}
	}
	report.Mounted = &published
	for range s.loading {
		report.Loading = append(report.Loading, published)
	}
	return report
}

// roles are those of the node: two listeners that every cluster has, the agent, the Raft
// client.
func (s shape) roles() int { return s.clients + 4 }

// own are the roles of every member.
func own() []publication.Role {
	return []publication.Role{publication.AgentRole, "client", "peers-2380", replication}
}

func length(t *testing.T, report publication.Report) int {
	t.Helper()
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func TestHonestReportsAreShortEnough(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]shape{
		"two listeners and one authority":              {clients: 2, anchors: 1},
		"the same while a key is replaced":             {clients: 2, anchors: 2, chain: 1, loading: 1},
		"ten listeners and three replacements at once": {clients: 10, anchors: 4, chain: 3, loading: 1},
		"as many listeners as a Kafka may have":        {clients: 64, anchors: 2, chain: 1, loading: 1},
		"the same with three replacements at once":     {clients: 64, anchors: 4, chain: 3, loading: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, limit := length(t, s.report()), publication.MaxReport(s.roles())
			t.Logf("%d bytes, %d are read", got, limit)
			if got > limit {
				t.Errorf("the report takes %d bytes, and %d are read", got, limit)
			}
			if what, limit, many := s.report().TooMany(); many {
				t.Errorf("the report has more than %d %s", limit, what)
			}
			if diff := cmp.Diff(s.report(), s.report().Fit(own())); diff != "" {
				t.Errorf("something is left out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLimitOfAFewListenersIs64KiB(t *testing.T) {
	t.Parallel()
	for roles, want := range map[int]int{0: 64 << 10, 6: 64 << 10, 16: 64 << 10, 17: 68 << 10, 68: 272 << 10} {
		if got := publication.MaxReport(roles); got != want {
			t.Errorf("%d bytes of a report with %d roles are read, want %d", got, roles, want)
		}
	}
}

func TestCertificatesThatOnlyListenersOfClientsPresentAreLeftOutFirst(t *testing.T) {
	t.Parallel()
	s := shape{clients: 20, anchors: 2, chain: 1, own: 16 << 10}
	whole := s.report()
	fits := whole.Fit(own())
	if got, limit := length(t, fits), publication.MaxReport(s.roles()); got > limit || len(fits.Certificates) == 0 {
		t.Errorf("%d bytes with %d certificates, want at most %d and some", got, len(fits.Certificates), limit)
	}
	if len(fits.Certificates) == len(whole.Certificates) {
		t.Error("nothing was left out")
	}
	for role, said := range fits.Roles {
		needed := slices.Clone(said.Trusts)
		if !strings.HasPrefix(string(role), "listener") {
			needed = append(needed, append(said.Chain, said.Presents)...)
		}
		for _, name := range needed {
			if _, carried := fits.Certificates[name]; !carried {
				t.Errorf("the certificate %s of %s is left out", name, role)
			}
		}
	}
	fits.Certificates, whole.Certificates = nil, nil
	if diff := cmp.Diff(whole, fits); diff != "" {
		t.Errorf("something else is left out (-want +got):\n%s", diff)
	}
}

func TestWhatIsTooLongToBeReportedIsNotKnown(t *testing.T) {
	t.Parallel()
	report := shape{clients: 2, anchors: 300, loading: 2}.report()
	fits := report.Fit(own())
	if len(fits.Roles) > 0 || fits.Mounted != nil || len(fits.Loading) > 0 || len(fits.Unknown) != len(report.Roles) {
		t.Errorf("%d roles, %d unknown, mounted %t: want that nothing is known", len(fits.Roles), len(fits.Unknown), fits.Mounted != nil)
	}
	if fits.Reload.Failure == "" || fits.Revision != report.Revision || length(t, fits) > publication.MaxAnswer {
		t.Errorf("revision %d, failure %q, %d bytes", fits.Revision, fits.Reload.Failure, length(t, fits))
	}
}

func TestTextsOfReportsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4<<10)
	list, names := []string{long}, map[string]string{long: long}
	published := publication.Publication{
		Identities: names, Proofs: names, Trust: map[publication.Role][]string{publication.Role(long): list},
		Operators: list, Chain: list, Loading: publication.Loading(long), Configuration: long,
	}
	report := publication.Report{
		Roles:   map[publication.Role]publication.RoleReport{publication.Role(long): {Trusts: list, Presents: long, Chain: list}},
		Unknown: []publication.Role{publication.Role(long)}, Certificates: map[string][]byte{long: {1}},
		Loading: []publication.Publication{published}, Mounted: &published, Reload: publication.ReloadReport{Failure: long},
	}
	data, err := json.Marshal(report.Excerpt())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), strings.Repeat("x", excerpt.Foreign)) {
		t.Errorf("a text is not cut: %s", data)
	}
	if len(report.Reload.Failure) != len(long) || len(report.Loading[0].Chain[0]) != len(long) {
		t.Error("the report that was given has changed")
	}
}

func TestReportsOfOrdinaryLengthAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	report := shape{clients: 2, anchors: 2, chain: 1, loading: 1}.report()
	if diff := cmp.Diff(report, report.Excerpt()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
