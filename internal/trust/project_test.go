package trust

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// change makes a cluster at rest the one that a test is about.
type change func(*Snapshot)

// atRest is a cluster of nodes and one companion under anchor A.
func atRest(nodes int, changes ...change) Snapshot {
	s := Snapshot{
		Now:         worldTime,
		Issuing:     "A",
		Anchors:     []Anchor{{ID: "A", Key: "keyA", NotAfter: worldTime.Add(300 * day), Stored: InUseAll}},
		Application: Application{Anchors: []AnchorID{"A"}},
		Policy:      Policy{Lead: 2 * time.Minute},
	}
	old := Publication{Main: []AnchorID{"A"}, Late: []AnchorID{"A"}, Identity: Identity{Signer: "keyA"}}
	for i := range nodes {
		s.Members = append(s.Members, kafkaNode(MemberID(fmt.Sprintf("my-%d", i)), old))
	}
	s.Members = append(s.Members, Member{
		ID: "companion", Kind: Companion, Published: Publication{Main: old.Main, Identity: old.Identity},
		Roles: []Role{running("client", dataPlane, true, true, old)},
	}, Member{
		ID: "operator", Kind: Operator, Published: Publication{Identity: old.Identity},
		Roles: []Role{running("client", dataPlane, false, true, Publication{Identity: old.Identity})},
	})
	for _, c := range changes {
		c(&s)
	}
	return s
}

// kafkaNode has the roles of a dual-role node with one client listener.
func kafkaNode(id MemberID, p Publication) Member {
	return Member{ID: id, Published: p, Roles: []Role{
		running("replication-9091", dataPlane, true, true, p),
		running("tls-9093", dataPlane, false, true, p),
		running("agent", dataPlane, true, true, p),
		running("controlplane-9090", controlPlane, true, true, p),
		running("raft", raftPlane, true, true, p),
	}}
}

func running(name string, plane Plane, verifies, presents bool, p Publication) Role {
	return Role{
		Name: name, Plane: plane, Verifies: verifies, Presents: presents,
		Evidence: Evidence{Process: ProcessRunning, Loaded: p.To(plane)},
	}
}

func replaced(s *Snapshot) {
	s.Issuing = "B"
	s.Anchors = append(s.Anchors, Anchor{ID: "B", Key: "keyB", NotAfter: worldTime.Add(600 * day)})
}

func crossed(s *Snapshot) {
	s.Anchors[len(s.Anchors)-1].Cross = []Cross{{Issuer: "keyA", NotAfter: worldTime.Add(300 * day)}}
}

func TestACompanionThatLoadsAtItsStartIsRestartedWhileNodesReload(t *testing.T) {
	t.Parallel()
	s := atRest(2, replaced, crossed, func(s *Snapshot) {
		s.Anchors[1].Stored = Untrusted
		for i := range s.Members[:3] {
			s.Members[i].Published.Main = []AnchorID{"A", "B"}
		}
		s.Members[2].Restarts = true
	})
	want := map[MemberID]How{"my-0": ByReload, "my-1": ByReload, "companion": ByRestart}
	for _, load := range Decide(s).Loads {
		if load.How != want[load.Member] {
			t.Errorf("%s loads by %s, want %s", load.Member, load.How, want[load.Member])
		}
		if load.How == ByRestart && load.Reason == "" {
			t.Errorf("nobody is told why %s is restarted", load.Member)
		}
		delete(want, load.Member)
	}
	if len(want) > 0 {
		t.Errorf("nothing is to be loaded by %v", want)
	}
}

func restartsOnly(s *Snapshot) { s.Policy.Reload = RestartOnly }

func distrusted(s *Snapshot) {
	s.Anchors[0].Compromised, s.Anchors[1].Cross[0].Distrusted = true, true
}

func silent(id MemberID) change {
	return func(s *Snapshot) {
		for i := range s.Members {
			for j := range s.Members[i].Roles {
				if s.Members[i].ID == id {
					s.Members[i].Roles[j].Evidence = Evidence{Since: worldTime.Add(-time.Minute)}
				}
			}
		}
	}
}

func TestProjection(t *testing.T) {
	t.Parallel()
	tests := map[string]Snapshot{
		"at-rest":               atRest(3),
		"cross-signed":          atRest(3, replaced, crossed),
		"classic":               atRest(3, replaced),
		"node-is-down":          atRest(3, replaced, crossed, silent("my-1")),
		"restarts-only":         atRest(3, replaced, crossed, restartsOnly),
		"classic-restarts-only": atRest(3, replaced, restartsOnly),
		"compromised":           atRest(3, replaced, crossed, distrusted),
		"renewed-under-its-key": atRest(3, replaced, func(s *Snapshot) { s.Anchors[1].Key = "keyA" }),
		"paused":                atRest(3, replaced, func(s *Snapshot) { s.Policy.Paused = true }),
		"new-cluster": atRest(3, func(s *Snapshot) {
			s.Anchors[0].Stored, s.Application = Absent, Application{}
			for i := range s.Members {
				s.Members[i].Published = Publication{}
				for j := range s.Members[i].Roles {
					s.Members[i].Roles[j].Evidence = Evidence{Process: ProcessNone}
				}
			}
		}),
		"operator-upgrade": atRest(3, func(s *Snapshot) { s.Anchors[0].Stored = Absent }),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, filepath.Join("testdata", "projections", name+".txt"), tell(Project(s)))
		})
	}
}

func TestRestartsPerNode(t *testing.T) {
	t.Parallel()
	type count struct{ asked, remainder int }
	tests := map[string]struct {
		cluster Snapshot
		want    count
	}{
		"a cross-signed replacement restarts nothing, and once when there is time": {atRest(3, replaced, crossed), count{0, 1}},
		"without reload a cross-signed replacement restarts twice":                 {atRest(3, replaced, crossed, restartsOnly), count{2, 0}},
		"without a cross certificate the Raft clients need two":                    {atRest(3, replaced), count{2, 0}},
		"without either it takes three":                                            {atRest(3, replaced, restartsOnly), count{3, 0}},
		"a compromised key takes one, after which nobody holds it":                 {atRest(3, replaced, crossed, distrusted), count{1, 0}},
		"a renewal under the same key restarts nothing":                            {atRest(3, replaced, func(s *Snapshot) { s.Anchors[1].Key = "keyA" }), count{0, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Project(test.cluster)
			if len(p.Blocked) > 0 {
				t.Fatalf("blocked: %v", p.Blocked)
			}
			var got count
			for _, stage := range p.Stages {
				for _, s := range stage.Steps {
					switch {
					case s.How != ByRestart || !slices.Contains(s.Members, "my-0"):
					case s.MayBeDeferred:
						got.remainder++
					default:
						got.asked++
					}
				}
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// tell prints a projection as a person would like to read it.
func tell(p Projection) string {
	var b strings.Builder
	for i, stage := range p.Stages {
		fmt.Fprintf(&b, "%d. %s\n", i+1, stage.Strategy.Kind)
		for _, w := range stage.After {
			fmt.Fprintf(&b, "   after %s: %s\n", w.Guard, w.What)
		}
		for _, s := range stage.Steps {
			b.WriteString("   " + strings.Join(strings.Fields(fmt.Sprint(
				s.Kind, " ", s.Anchor, " ", s.State, " ", s.How, " ", list(touched(s)), " ", list(s.Members), " ", s.Reason)), " ") + "\n")
		}
	}
	for _, w := range p.Blocked {
		fmt.Fprintf(&b, "blocked by %s: %s\n", w.Guard, w.What)
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

// touched are the names of the planes that a step is about.
func touched(s Step) []string {
	var planes []string
	if s.Kind == Withdraw {
		planes = append(planes, [...]string{Main: dataPlane.Name, Late: controlPlane.Name}[s.Bundle])
	}
	for _, plane := range s.Planes {
		planes = append(planes, plane.Name)
	}
	return planes
}

func list[T any](items []T) string {
	if len(items) == 0 {
		return ""
	}
	return fmt.Sprint(items)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// BenchmarkDecide is the middle of a replacement in a cluster of 300 nodes.
func BenchmarkDecide(b *testing.B) {
	s := atRest(300, replaced, crossed)
	for range 3 {
		plan := Decide(s)
		s.write(plan)
		s.load(plan.Loads, false)
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s)
	}
}
