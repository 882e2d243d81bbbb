package etcdload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

func at(seconds int) time.Time { return time.Date(2026, 11, 21, 7, 0, seconds, 0, time.UTC) }

// replaced is what became of a load while both CAs were replaced. One member was started again, and one never reported.
func replaced() (Result, []observe.Log) {
	before, after := observe.Presented{Leaf: "aa", Issuer: "client-ca v0", Authority: "01"}, observe.Presented{Leaf: "bb", Issuer: "client-ca v1", Authority: "02"}
	result := Result{
		Account: Account{
			Writes: 9600, Failed: 1, Stall: ledger.Gap{From: at(40), Length: 812 * time.Millisecond},
			Acks: ledger.Rate{Start: at(0), Width: 100 * time.Millisecond, Counts: []uint32{16, 16}}, Failures: []time.Time{at(51)},
		},
		EndedAt:  at(60),
		Marks:    []timeline.Mark{{At: at(5), Text: "replaced"}},
		Refusals: []Refusal{{At: at(30), Who: Working, Endpoint: "my-cluster-0.my-cluster-peer"}, {At: at(31), Who: Fresh, Endpoint: "my-cluster-0.my-cluster-peer"}},
		Fresh: []observe.Watch{{
			Node: "my-cluster-0", Phases: map[string]observe.Tally{"": {Accepted: 50, Refused: 1}},
			Spans: []observe.Span{
				{From: at(0), To: at(20), Verdict: verdict.Accepted, Presented: before},
				{From: at(21), To: at(39), Verdict: verdict.Accepted, Presented: after},
				{From: at(40), To: at(43), Verdict: verdict.Unreachable},
				{From: at(44), To: at(60), Verdict: verdict.Accepted, Presented: after},
			},
		}},
	}
	ready := func(from, to int, trusted ...string) observe.State {
		return observe.State{
			From: at(from), To: at(to), Up: true, Ready: true,
			Trusts: map[string][]string{"peers": trusted}, Issuers: map[string][]string{"peers": {"peer-ca v0"}},
		}
	}
	return result, []observe.Log{
		{Node: "my-cluster-0", Restarts: 1, States: []observe.State{ready(0, 10, "peer-ca v0"), ready(10, 60, "peer-ca v0", "peer-ca v1")}},
		{Node: "my-cluster-1", States: []observe.State{{From: at(0), To: at(60), Up: true}}},
	}
}

func TestThePictureShowsWhatWasSeenOfMembersAndClients(t *testing.T) {
	t.Parallel()
	before, after := []string{"client-ca v0, key 01"}, []string{"client-ca v1, key 02"}
	want := timeline.Timeline{
		Title: "title", Start: at(0), End: at(60), Counted: "writes", Failure: "failed write, refused connection",
		Verdict: "9600 writes, 1 failed · 2 TLS failures · 1 restart · longest gap 812 ms",
		Marks:   []timeline.Mark{{At: at(5), Text: "replaced"}},
		Nodes: []timeline.Node{
			{
				Name: "my-cluster-0", Note: "1 restart",
				States: []timeline.State{{From: at(0), To: at(10), Condition: timeline.Ready}, {From: at(10), To: at(60), Condition: timeline.Ready}},
				Bands: []timeline.Band{
					{Label: "trusts peers", Spans: []timeline.Span{
						{From: at(0), To: at(10), Values: []string{"peer-ca v0"}}, {From: at(10), To: at(60), Values: []string{"peer-ca v0", "peer-ca v1"}},
					}},
					{Label: "presents to peers", Spans: []timeline.Span{{From: at(0), To: at(60), Values: []string{"peer-ca v0"}}}},
					{Label: "presents to clients", Spans: []timeline.Span{
						{From: at(0), To: at(20), Values: before}, {From: at(21), To: at(39), Values: after}, {From: at(44), To: at(60), Values: after},
					}},
				},
			},
			{
				Name: "my-cluster-1", Note: "0 restarts",
				States: []timeline.State{{From: at(0), To: at(60), Condition: timeline.NotReady}},
				Bands:  []timeline.Band{{Label: "presents to clients"}},
			},
		},
		Clients: []timeline.Client{{
			Name: "16 writers, 4 readers", Note: "9600 writes, 1 failed", Width: 100 * time.Millisecond, Counts: []uint32{16, 16},
			Failures: []time.Time{at(30), at(51)}, GapFrom: at(40), GapTo: at(40).Add(812 * time.Millisecond), GapText: "812 ms",
		}},
		Watches: []timeline.Watch{{Name: "fresh connections", Note: "50 accepted, 1 refused", Lines: [][]timeline.Seen{{
			{From: at(0), To: at(21), Answer: timeline.Accepted},
			{From: at(21), To: at(40), Answer: timeline.Accepted},
			{From: at(40), To: at(44), Answer: timeline.Unanswered},
			{From: at(44), To: at(60), Answer: timeline.Accepted},
		}}}},
	}
	result, members := replaced()
	if diff := cmp.Diff(want, result.Timeline("title", members)); diff != "" {
		t.Errorf("time line (-want +got):\n%s", diff)
	}
}
