package picture_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/report/picture"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

var update = flag.Bool("update", false, "write the golden files")

func start() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }

func at(seconds float64) time.Time {
	return start().Add(time.Duration(seconds * float64(time.Second)))
}

const (
	oldCA = "cluster-ca v0 3f2a91c0"
	newCA = "cluster-ca v1 b81d77e4"
)

// rotation is a key replacement without a restart, under three clients, one of
// them refused, with one node restarted by hand in the middle.
func rotation() timeline.Timeline {
	line := timeline.Timeline{
		Title:   "trust/replaces-the-cluster-ca",
		Verdict: "14,400 records, 0 lost · 3 TLS failures · 1 restart · longest gap 812 ms",
		Start:   start(), End: at(96), Counted: "records", Failure: "TLS failure",
		Marks: []timeline.Mark{
			{At: at(10), Text: "annotated: force-replace"},
			{At: at(14), Text: "every node trusts new"},
			{At: at(31), Text: "new leaves <presented> & proven"},
			{At: at(70), Text: "old anchor gone"},
		},
	}
	for i, name := range []string{"my-cluster-dual-role-0", "my-cluster-dual-role-1", "my-own-cluster-dual-role-2"} {
		line.Nodes = append(line.Nodes, rotated(name, float64(i)))
	}
	line.Nodes[1].Note = "1 restart"
	line.Nodes[1].States = []timeline.State{
		{From: start(), To: at(44), Condition: timeline.Ready},
		{From: at(44), To: at(47), Condition: timeline.Down},
		{From: at(47), To: at(56), Condition: timeline.NotReady},
		{From: at(56), To: at(96), Condition: timeline.Ready},
	}
	line.Clients = []timeline.Client{steady("pinned @ tls"), steady("all-crt @ tls"), steady("mtls @ internal")}
	refused := &line.Clients[0]
	refused.Ok, refused.Note = false, "4,800 sent, 0 lost, 3 refused"
	refused.Failures = []time.Time{at(72), at(73), at(74)}
	line.Watches = []timeline.Watch{
		{Name: "openssl, old CA only", Note: "282 accepted", Ok: true, Lines: [][]timeline.Seen{
			{{From: start(), To: at(96), Answer: timeline.Accepted}},
			{{From: start(), To: at(44), Answer: timeline.Accepted}, {From: at(44), To: at(52), Answer: timeline.Unanswered}, {From: at(52), To: at(96), Answer: timeline.Accepted}},
			{{From: start(), To: at(96), Answer: timeline.Accepted}},
		}},
		{Name: "openssl, new CA only", Note: "64 accepted, 2 refused", Lines: [][]timeline.Seen{
			{{From: at(31), To: at(96), Answer: timeline.Accepted}}, {}, {{From: at(31), To: at(33), Answer: timeline.Refused}, {From: at(33), To: at(96), Answer: timeline.Accepted}},
		}},
	}
	return line
}

// writes is a replacement of two CAs under clients that count writes. Of the peers, the picture
// shows what the member reports; it reports nothing while it starts again.
func writes() timeline.Timeline {
	return timeline.Timeline{
		Title: "etcd/my-cluster", Verdict: "2400 writes, 1 failed · 1 restart", Start: start(), End: at(60),
		Counted: "writes", Failure: "failed write",
		Nodes: []timeline.Node{{
			Name: "my-cluster-0", Note: "1 restart",
			States: []timeline.State{
				{From: start(), To: at(40), Condition: timeline.Ready},
				{From: at(40), To: at(44), Condition: timeline.NotReady},
				{From: at(44), To: at(60), Condition: timeline.Ready},
			},
			Bands: []timeline.Band{
				{Label: "trusts peers", Spans: []timeline.Span{
					{From: start(), To: at(40), Values: []string{"peer-ca v0"}}, {From: at(44), To: at(60), Values: []string{"peer-ca v1"}},
				}},
				{Label: "presents to peers"},
			},
		}},
		Clients: []timeline.Client{{
			Name: "writers", Note: "2400 writes, 1 failed", Width: time.Second, Counts: []uint32{40, 40, 12, 40}, Failures: []time.Time{at(42)},
		}},
	}
}

func rotated(name string, delay float64) timeline.Node {
	return timeline.Node{
		Name: name, Note: "0 restarts",
		States: []timeline.State{{From: start(), To: at(96), Condition: timeline.Ready}},
		Bands: []timeline.Band{
			{Label: "trusts peers", Spans: []timeline.Span{
				{From: start(), To: at(11 + delay), Values: []string{oldCA}},
				{From: at(11 + delay), To: at(66 + delay), Values: []string{oldCA, newCA}},
				{From: at(66 + delay), To: at(96), Values: []string{newCA}},
			}},
			{Label: "presents", Spans: []timeline.Span{
				{From: start(), To: at(20 + 4*delay), Values: []string{oldCA}},
				{From: at(20 + 4*delay), To: at(96), Values: []string{newCA}},
			}},
		},
	}
}

// steady sends 50 records a second, and none in most of a second at 44.
func steady(name string) timeline.Client {
	client := timeline.Client{
		Name: name, Note: "4,800 sent, 0 lost", Ok: true, Width: 100 * time.Millisecond,
		GapFrom: at(44.1), GapTo: at(44.912), GapText: "812 ms",
	}
	for i := range 960 {
		count := uint32(5)
		switch {
		case i > 441 && i < 449:
			count = 0
		case i == 449:
			count = 24
		case i%7 == 0:
			count = 4
		}
		client.Counts = append(client.Counts, count)
	}
	return client
}

func TestRenderMatchesTheGoldenPicture(t *testing.T) {
	t.Parallel()
	cases := map[string]timeline.Timeline{
		"rotation": rotation(),
		"writes":   writes(),
		"empty":    {Title: "nothing ran", Verdict: "no client, no node", Start: start(), End: start()},
	}
	for name, line := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := picture.Render(line)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".svg")
			if *update {
				writeFile(t, golden, got)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("SVG differs; look at it, then run with -update (-want +got):\n%s", diff)
			}
		})
	}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
