package probe_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/picture"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

var update = flag.Bool("update", false, "write the golden files")

func begin() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }

func after(seconds float64) time.Time {
	return begin().Add(time.Duration(seconds * float64(time.Second)))
}

// halfway is a probe that found several things to complain of.
func halfway() probe.Result {
	leaf := observe.Presented{Leaf: "aa", Authority: "0123456789abcdef", Issuer: "cluster-ca v0"}
	seen := []observe.Watch{{
		Node:   "c-pool-0",
		Phases: map[string]observe.Tally{"before": {Accepted: 29}, "rotation": {Accepted: 20, Refused: 2, Unreachable: 7, Interrupted: 1}},
		Spans: []observe.Span{
			{From: begin(), To: after(30), Verdict: verdict.Accepted, Presented: leaf, Count: 31},
			{From: after(31), To: after(38), Verdict: verdict.Unreachable, Reason: verdict.ConnectionRefused, Count: 8},
			{From: after(39), To: after(60), Verdict: verdict.Accepted, Presented: leaf, Count: 22},
		},
	}}
	return probe.Result{
		Complete: true,
		Notes:    []string{"a note"},
		Snapshot: probe.Snapshot{
			StartedAt: begin(), At: after(60.4), Phase: "rotation",
			Phases: []probe.Mark{{At: begin(), Phase: "before"}, {At: after(29), Phase: "rotation"}},
			Clients: []probe.ClientState{
				{
					Kind: "pinned", Listener: "tls", Handshakes: seen,
					Records: ledger.Account{
						Sent: 3000, Acknowledged: 2995, Failed: 4, Because: map[string]uint64{"timed out": 4}, Consumed: 2993, Unread: 2, FirstUnread: []uint64{17, 18},
						Duplicated: 1, OutOfOrder: 3, SlowestAck: 900 * time.Millisecond,
						LongestGap:          ledger.Gap{From: after(31), Length: 812 * time.Millisecond},
						LongestPartitionGap: ledger.Gap{From: after(31), Length: 1500 * time.Millisecond},
						Acks:                ledger.Rate{Start: begin(), Width: 100 * time.Millisecond, Counts: []uint32{5, 5, 4, 6}},
					},
					TLSFailures: map[verdict.Reason]uint64{verdict.UnknownAuthority: 2, verdict.AlertExpired: 1},
					Failures:    []probe.Failure{{At: after(40), Node: "c-pool-0", Phase: "rotation", Reason: verdict.UnknownAuthority}},
				},
				{
					Kind: "all-crt", Listener: "tls", Handshakes: seen,
					Records: ledger.Account{Sent: 3000, Acknowledged: 3000, Consumed: 3000, LongestGap: ledger.Gap{From: after(9), Length: 61 * time.Millisecond}},
				},
			},
			Watches: []probe.WatchState{{Name: "old only", Listener: "tls", Nodes: seen}},
			Nodes: []observe.Log{{
				Node: "c-pool-0", Restarts: 1,
				States: []observe.State{
					{From: begin(), To: after(31), Up: true, Ready: true, Trusts: map[string][]string{"peers": {"cluster-ca v0, key 01234567"}}},
					{From: after(31), To: after(35)},
					{From: after(35), To: after(50), Up: true, Trusts: map[string][]string{"peers": {"cluster-ca v0, key 01234567"}}},
					{From: after(50), To: after(60.4), Up: true, Ready: true, Trusts: map[string][]string{"peers": {"cluster-ca v0, key 01234567"}}},
				},
			}},
		},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	golden(t, "table.txt", probe.Table(halfway().Snapshot))
}

func TestReportOfAResult(t *testing.T) {
	t.Parallel()
	data, err := halfway().Report("trust/replaces-the-cluster-ca", "a machine").Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", string(data))
}

func TestResultAsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.MarshalIndent(halfway(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "result.json", string(data)+"\n")
	var back probe.Result
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(halfway(), back); diff != "" {
		t.Errorf("what was read back differs (-want +got):\n%s", diff)
	}
}

func TestTimelineOfAResult(t *testing.T) {
	t.Parallel()
	name := []string{"cluster-ca v0, key 01234567"}
	want := timeline.Timeline{
		Title: "title", Start: begin(), End: after(60.4), Counted: "records", Failure: "TLS failure",
		Verdict: "6000 records, 6 lost · 3 TLS failures · 1 restart · longest gap 812 ms",
		Marks:   []timeline.Mark{{At: begin(), Text: "before"}, {At: after(29), Text: "rotation"}},
		Nodes: []timeline.Node{{
			Name: "c-pool-0", Note: "1 restart",
			States: []timeline.State{
				{From: begin(), To: after(31), Condition: timeline.Ready},
				{From: after(31), To: after(35), Condition: timeline.Down},
				{From: after(35), To: after(50), Condition: timeline.NotReady},
				{From: after(50), To: after(60.4), Condition: timeline.Ready},
			},
			Bands: []timeline.Band{
				{Label: "trusts peers", Spans: []timeline.Span{
					{From: begin(), To: after(31), Values: name}, {From: after(35), To: after(60.4), Values: name},
				}},
				{Label: "presents", Spans: []timeline.Span{
					{From: begin(), To: after(30), Values: name}, {From: after(39), To: after(60), Values: name},
				}},
			},
		}},
		Clients: []timeline.Client{
			{
				Name: "pinned @ tls", Note: "3000 sent, 6 lost, 3 refused", Width: 100 * time.Millisecond, Counts: []uint32{5, 5, 4, 6},
				Failures: []time.Time{after(40)}, GapFrom: after(31), GapTo: after(31.812), GapText: "812 ms",
			},
			{Name: "all-crt @ tls", Note: "3000 sent, 0 lost", Ok: true, GapFrom: after(9), GapTo: after(9.061), GapText: "61 ms"},
		},
		Watches: []timeline.Watch{{
			Name: "old only @ tls", Note: "49 accepted, 2 refused",
			Lines: [][]timeline.Seen{{
				{From: begin(), To: after(31), Answer: timeline.Accepted},
				{From: after(31), To: after(39), Answer: timeline.Unanswered},
				{From: after(39), To: after(60), Answer: timeline.Accepted},
			}},
		}},
	}
	if diff := cmp.Diff(want, halfway().Timeline("title")); diff != "" {
		t.Errorf("time line (-want +got):\n%s", diff)
	}
}

func TestTheOverviewHasAllClientsInOneRow(t *testing.T) {
	t.Parallel()
	result := halfway()
	result.Clients[1].Records.Acks = ledger.Rate{Width: 100 * time.Millisecond, Counts: []uint32{1, 2, 3, 4, 5}}
	line := result.Overview("title")
	want := []timeline.Client{{
		Name: "2 clients together", Note: "1 refused", Width: 100 * time.Millisecond, Counts: []uint32{6, 7, 7, 10, 5},
		Failures: []time.Time{after(40)}, GapFrom: after(31), GapTo: after(31.812), GapText: "812 ms",
	}}
	if diff := cmp.Diff(want, line.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	if len(line.Nodes) != 1 || len(line.Nodes[0].Bands) != 1 || line.Nodes[0].Bands[0].Label != "presents" {
		t.Errorf("nodes show %+v", line.Nodes)
	}
	if len(line.Marks)+len(line.Watches) > 0 || line.Ok || line.Verdict != result.Timeline("title").Verdict {
		t.Errorf("the overview has marks %v, watches %v, verdict %q, ok %t", line.Marks, line.Watches, line.Verdict, line.Ok)
	}
}

func TestOkAsksForEverything(t *testing.T) {
	t.Parallel()
	fine := func() probe.Result {
		return probe.Result{Complete: true, Snapshot: probe.Snapshot{Clients: []probe.ClientState{
			{Kind: "pinned", Records: ledger.Account{Sent: 1, Acknowledged: 1, Consumed: 1}},
		}}}
	}
	cases := map[string]struct {
		spoil func(*probe.Result)
		want  bool
	}{
		"nothing to complain of":            {func(*probe.Result) {}, true},
		"a log was not read to its end":     {func(r *probe.Result) { r.Complete = false }, false},
		"a client never got through":        {func(r *probe.Result) { r.Clients[0].Records.Acknowledged = 0 }, false},
		"a record is lost":                  {func(r *probe.Result) { r.Clients[0].Records.Unread = 1 }, false},
		"a record was given up":             {func(r *probe.Result) { r.Clients[0].Records.Failed = 1 }, false},
		"a record came twice":               {func(r *probe.Result) { r.Clients[0].Records.Duplicated = 1 }, false},
		"a record came late":                {func(r *probe.Result) { r.Clients[0].Records.OutOfOrder = 1 }, false},
		"a client was refused":              {func(r *probe.Result) { r.Clients[0].TLSFailures = map[verdict.Reason]uint64{verdict.Expired: 1} }, false},
		"a watch was refused, as it may be": {func(r *probe.Result) { r.Watches = halfway().Watches }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := fine()
			c.spoil(&result)
			if got := result.Ok(); got != c.want {
				t.Errorf("ok %t, want %t", got, c.want)
			}
		})
	}
}

func TestReportsAndPicturesAgree(t *testing.T) {
	t.Parallel()
	if _, err := picture.Render(halfway().Timeline("x")); err != nil {
		t.Errorf("the picture cannot be drawn: %v", err)
	}
	if halfway().Report("x", report.Machine()).Ok {
		t.Error("a result with losses reports ok")
	}
}
