package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keyturn/keyturn/internal/report"
)

var update = flag.Bool("update", false, "write the golden files")

func rolled() report.Report {
	return report.Report{
		Name: "cluster/rolls-under-load", Ok: true,
		StartedAt:       time.Date(2026, 11, 21, 7, 0, 0, 123_456_789, time.FixedZone("CET", 3600)),
		DurationSeconds: 61.23456,
		Machine:         "linux/amd64, 2 CPUs",
		Figures: []report.Figure{
			report.AtMost("longest gap", 0.812, 3, "s", "longest time between two acknowledgements of one client"),
			report.AtLeast("handshakes", 540, 500, "connections", "fresh connections that completed a request"),
			report.Observed("restarts", 3, "pods", "new pods by UID"),
		},
		Clients: []report.Client{
			{Kind: "pinned", Listener: "tls", Sent: 3000, Acknowledged: 3000, LongestGapMs: 812},
			{Kind: "mtls", Listener: "internal", Sent: 3000, Acknowledged: 2999, Lost: 1, TLSFailures: 2},
			{Kind: "all-crt", Listener: "tls", Sent: 3000, Acknowledged: 3000, Duplicated: 1, OutOfOrder: 4},
		},
		Handshakes: []report.Handshakes{
			{Who: "pinned", Listener: "tls", Node: "c-dual-0", Phase: "before", Accepted: 5},
			{Who: "pinned", Listener: "tls", Node: "c-dual-0", Phase: "restarting", Accepted: 50, Interrupted: 1, Unreachable: 9},
		},
		Restarts: map[string]int{"c-dual-1": 1, "c-dual-0": 1, "c-dual-2": 1},
	}
}

func TestEncodeMatchesTheGoldenReport(t *testing.T) {
	t.Parallel()
	cases := map[string]report.Report{"rolled": rolled(), "empty": {Name: "nothing"}}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".json")
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
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerdictIsThatOfTheWorstFigure(t *testing.T) {
	t.Parallel()
	reached := report.AtMost("gap", 3, 3, "s", "")
	missed := report.AtMost("gap", 3.01, 3, "s", "")
	few := report.AtLeast("handshakes", 1, 2, "connections", "")
	cases := map[string]struct {
		figures []report.Figure
		want    bool
	}{
		"a bound that is met exactly is reached":   {[]report.Figure{reached}, true},
		"one missed target fails the whole":        {[]report.Figure{reached, missed}, false},
		"too little fails as too much does":        {[]report.Figure{few}, false},
		"a figure without a target cannot fail it": {[]report.Figure{report.Observed("x", -1, "", "")}, true},
		"nothing measured is nothing missed":       {nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := report.Verdict(c.figures); got != c.want {
				t.Errorf("verdict %t, want %t", got, c.want)
			}
		})
	}
}

func TestATimeThatMissesItsBoundIsSlowAndNotWrong(t *testing.T) {
	t.Parallel()
	lost := report.AtMost("records lost", 1, 0, "records", "")
	gap := report.AtMost("gap", 4.9, 3, "s", "")
	quick := report.AtMost("gap", 600, 3000, "ms", "")
	cases := map[string]struct {
		figures []report.Figure
		correct bool
		slow    []report.Figure
	}{
		"all is well":               {[]report.Figure{quick}, true, []report.Figure{}},
		"a gap over its bound":      {[]report.Figure{quick, gap}, true, []report.Figure{gap}},
		"a lost record":             {[]report.Figure{lost, quick}, false, []report.Figure{}},
		"slow, and one is lost":     {[]report.Figure{gap, lost}, false, []report.Figure{gap}},
		"a time that was too short": {[]report.Figure{report.AtLeast("lead", 73, 120, "s", "")}, false, []report.Figure{}},
		"nothing was measured":      {nil, true, []report.Figure{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := report.Correct(c.figures); got != c.correct {
				t.Errorf("correct %t, want %t", got, c.correct)
			}
			if diff := cmp.Diff(c.slow, report.Slow(c.figures), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("slow (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteLeavesReportAndPicture(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "e2e", "cluster", "rolls-under-load")
	if err := report.Write(directory, rolled(), report.Picture("<svg/>")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"report.json", "timeline.svg"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
