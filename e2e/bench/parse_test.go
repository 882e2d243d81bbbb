package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGoBenchmarksAreRead(t *testing.T) {
	t.Parallel()
	figures, err := parseBenchmarks([]byte("goos: linux\nBenchmarkIssueLeafECDSA-2 \t 7890\t 151000 ns/op\t 25000 B/op\t 320 allocs/op\nPASS\n"), "./x")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range figures {
		got = append(got, f.Name+" "+f.Unit)
		if f.Unit == "ns/op" && f.Value != 151000 {
			t.Errorf("%s is %g ns/op", f.Name, f.Value)
		}
	}
	want := []string{"IssueLeafECDSA ns/op", "IssueLeafECDSA B/op", "IssueLeafECDSA allocs/op"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseBenchmarks([]byte("PASS\n"), "./x"); err == nil {
		t.Error("output without benchmarks is accepted")
	}
}

func TestTheCacheIsBoundedBesideEachKindOfSecrets(t *testing.T) {
	t.Parallel()
	figures, err := parseBenchmarks([]byte("goos: linux\n"+
		"BenchmarkCacheBesideSecrets/strangers-2 \t 1\t 2677116305 ns/op\t 33.97 KiB\t 6109992 B/op\t 44778 allocs/op\n"+
		"BenchmarkCacheBesideSecrets/users-2 \t 1\t 2451591514 ns/op\t 2049 KiB\t 5519976 B/op\t 35738 allocs/op\nPASS\n"), "./x")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range boundedCache(figures) {
		if f.Target != "" {
			got[f.Name] = f.Ok
		}
	}
	want := map[string]bool{"cache beside 10,000 Secrets of strangers": true, "cache beside 10,000 Secrets of users": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARotationIsBoundedBesideEachKindOfNeighbours(t *testing.T) {
	t.Parallel()
	figures, err := parseBenchmarks([]byte("goos: linux\n"+
		"BenchmarkRotationBesideX/black_holes-2 \t 1\t 2677116305 ns/op\t 22.8 s-alone\t 33.0 s-beside-50\t 1.45 times-as-long\n"+
		"BenchmarkRotationBesideX/late-2 \t 1\t 2451591514 ns/op\t 22.8 s-alone\t 41.2 s-beside-50\t 1.81 times-as-long\nPASS\n"), "./x")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range boundedRotations(figures) {
		if f.Target != "" {
			got[f.Name] = f.Ok
		}
	}
	want := map[string]bool{"rotation beside 50 clusters, black holes": true, "rotation beside 50 clusters, late": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsAreRead(t *testing.T) {
	t.Parallel()
	const text = `# HELP process_resident_memory_bytes Resident memory size in bytes.
process_resident_memory_bytes 3.145728e+07
process_cpu_seconds_total 12.5
leader_election_master_status{name="keyturn-operator"} 1
`
	got, err := parseUsage("pod", text)
	if err != nil {
		t.Fatal(err)
	}
	if want := (usage{resident: 30 * mebibyte, cpuSeconds: 12.5, leader: true}); got != want {
		t.Errorf("read %+v, to be %+v", got, want)
	}
	if _, err := parseUsage("pod", strings.ReplaceAll(text, "process_cpu", "other")); err == nil {
		t.Error("metrics without CPU time are accepted")
	}
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	line := func(id, verb, user, resource, namespace string) string {
		return `{"auditID":"` + id + `","verb":"` + verb + `","user":{"username":"` + user +
			`"},"objectRef":{"resource":"` + resource + `","namespace":"` + namespace + `","name":"x"}}` + "\n"
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	before := line("0", "create", operatorUser, "pods", "kafka")
	text := before +
		line("1", "watch", operatorUser, "pods", "kafka") + line("1", "watch", operatorUser, "pods", "kafka") + // begin and end
		line("2", "update", operatorUser, "leases", "keyturn") +
		line("3", "patch", operatorUser, "secrets", "kafka") +
		line("4", "patch", "somebody", "secrets", "kafka") +
		`{"auditID":"5",` // is being written
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := auditLog{path: path, from: int64(len(before)), user: operatorUser}.since()
	if err != nil {
		t.Fatal(err)
	}
	if got.reads != 1 || got.leases != 1 || len(got.writes) != 1 || got.writes[0].ObjectRef.Resource != "secrets" {
		t.Errorf("counted %+v", got)
	}
	figures, notes := got.figures(time.Minute)
	if figures[0].Ok || len(notes) != 1 {
		t.Errorf("a write while idle is no miss: %+v, %q", figures, notes)
	}
	if _, err := (auditLog{path: path, from: int64(len(text)) + 1}).since(); err == nil {
		t.Error("a log that became shorter is accepted")
	}
}

func TestEnrolmentIsBounded(t *testing.T) {
	t.Parallel()
	figures, err := parseBenchmarks([]byte("goos: linux\nBenchmarkHundredClusters-2 \t 1\t 50440679961 ns/op\t 68.23 MiB-resident\t 34.4 ms-median\t"+
		" 200.5 ms-p99\t 23.70 s-until-enrolled\t 0 writes-at-rest\nPASS\n"), "./x")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range boundedEnrolment(figures) {
		if f.Target != "" {
			got[f.Name] = f.Ok
		}
	}
	want := map[string]bool{
		"100 etcd clusters of 3 members, all Ready":                    true,
		"100 etcd clusters, operator and all that is played, resident": true,
		"100 etcd clusters, writes while nothing changes":              true,
		"50 requests for certificates a second, 99th percentile":       false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
