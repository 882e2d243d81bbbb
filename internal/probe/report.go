package probe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Report puts a result into the common form, with the probe's own figures. The
// caller adds its figures and notes, and has the last word on Ok.
func (r Result) Report(name, machine string) report.Report {
	out := report.Report{
		Name:            name,
		Ok:              r.Ok(),
		StartedAt:       r.StartedAt,
		DurationSeconds: r.At.Sub(r.StartedAt).Seconds(),
		Machine:         machine,
		Restarts:        map[string]int{},
		Notes:           append([]string(nil), r.Notes...),
	}
	for _, node := range r.Nodes {
		out.Restarts[node.Node] = node.Restarts
	}
	for _, client := range r.Clients {
		out.Clients = append(out.Clients, client.report())
		out.Notes = append(out.Notes, client.notes()...)
		out.Handshakes = append(out.Handshakes, r.handshakes(client.Kind, client.Listener, client.Handshakes)...)
	}
	for _, watch := range r.Watches {
		out.Handshakes = append(out.Handshakes, r.handshakes(watch.Name, watch.Listener, watch.Nodes)...)
	}
	out.Figures = r.figures()
	return out
}

func (c ClientState) report() report.Client {
	return report.Client{
		Kind:         c.Kind,
		Listener:     c.Listener,
		Sent:         c.Records.Sent,
		Acknowledged: c.Records.Acknowledged,
		Lost:         c.Records.Unread + c.Records.Failed,
		Duplicated:   c.Records.Duplicated,
		OutOfOrder:   c.Records.OutOfOrder,
		TLSFailures:  c.Refusals(),
		LongestGapMs: report.Milliseconds(c.Records.LongestGap.Length),
	}
}

// handshakes lists the counts of one client or watch, phases in their order.
func (r Result) handshakes(who, listener string, watches []observe.Watch) []report.Handshakes {
	var out []report.Handshakes
	for _, node := range watches {
		for _, phase := range r.phases() {
			if tally, seen := node.Phases[phase]; seen {
				out = append(out, report.Handshakes{
					Who: who, Listener: listener, Node: node.Node, Phase: phase,
					Accepted: tally.Accepted, Refused: tally.Refused, Interrupted: tally.Interrupted, Unreachable: tally.Unreachable,
				})
			}
		}
	}
	return out
}

// phases in the order in which they began, that before the first mark included.
func (r Result) phases() []string {
	phases := []string{""}
	for _, mark := range r.Phases {
		if !slices.Contains(phases, mark.Phase) {
			phases = append(phases, mark.Phase)
		}
	}
	return phases
}

// notes tell apart what the report's columns add up.
func (c ClientState) notes() []string {
	var notes []string
	if c.Records.Unread > 0 {
		notes = append(notes, fmt.Sprintf("%s@%s: %d acknowledged records were not read back, the first of them %v",
			c.Kind, c.Listener, c.Records.Unread, c.Records.FirstUnread))
	}
	for _, reason := range sortedKeys(c.Records.Because) {
		notes = append(notes, fmt.Sprintf("%s@%s: %d records were given up: %s", c.Kind, c.Listener, c.Records.Because[reason], reason))
	}
	for _, reason := range sortedKeys(c.TLSFailures) {
		notes = append(notes, fmt.Sprintf("%s@%s: refused %d times: %s", c.Kind, c.Listener, c.TLSFailures[reason], reason))
	}
	return notes
}

func (r Result) figures() []report.Figure {
	var lost, refused uint64
	var fresh observe.Tally
	var gap, partitionGap ledger.Gap
	var slowest time.Duration
	for _, client := range r.Clients {
		lost += client.Records.Unread + client.Records.Failed
		refused += client.Refusals()
		fresh = fresh.Plus(client.Fresh())
		gap = gap.Longer(client.Records.LongestGap)
		partitionGap = partitionGap.Longer(client.Records.LongestPartitionGap)
		slowest = max(slowest, client.Records.SlowestAck)
	}
	return []report.Figure{
		report.AtMost("records lost", float64(lost), 0, "records",
			"acknowledged and not read back at the end of the log, or given up by the producer; all clients"),
		report.AtMost("TLS failures", float64(refused), 0, "connections",
			"connections that one side refused, working and fresh ones; nodes that were down do not count"),
		report.Observed("fresh handshakes", float64(fresh.Accepted), "connections",
			"new connections without session resumption, each with a completed request"),
		report.Observed("longest gap", report.Milliseconds(gap.Length), "ms",
			"longest time between two acknowledgements of one client"),
		report.Observed("longest gap of a partition", report.Milliseconds(partitionGap.Length), "ms",
			"longest time between two acknowledgements of one client for one partition"),
		report.Observed("slowest acknowledgement", report.Milliseconds(slowest), "ms",
			"longest wait of one record, from being handed to the producer"),
	}
}

// bandPresents is what the node presents to clients.
const bandPresents = "presents"

// Timeline is the picture of a result; title and verdict are the caller's.
func (r Result) Timeline(title string) timeline.Timeline {
	picture := timeline.Timeline{
		Title: title, Ok: r.Ok(), Start: r.StartedAt, End: r.At, Verdict: r.sentence(), Counted: "records", Failure: "TLS failure",
	}
	for _, mark := range r.Phases {
		picture.Marks = append(picture.Marks, timeline.Mark{At: mark.At, Text: mark.Phase})
	}
	shown := r.presented()
	for _, node := range r.Nodes {
		picture.Nodes = append(picture.Nodes, node.Row(timeline.Band{Label: bandPresents, Spans: shown[node.Node]}))
	}
	for _, client := range r.Clients {
		picture.Clients = append(picture.Clients, client.row())
	}
	for _, watch := range r.Watches {
		picture.Watches = append(picture.Watches, observe.WatchRow(watch.Name+" @ "+watch.Listener, watch.Nodes))
	}
	return picture
}

// sentence is the verdict in one line.
func (r Result) sentence() string {
	var sent, lost, refused uint64
	var gap ledger.Gap
	restarts := 0
	for _, client := range r.Clients {
		sent += client.Records.Sent
		lost += client.Records.Unread + client.Records.Failed
		refused += client.Refusals()
		gap = gap.Longer(client.Records.LongestGap)
	}
	for _, node := range r.Nodes {
		restarts += node.Restarts
	}
	return fmt.Sprintf("%d records, %d lost · %d TLS failures · %s · longest gap %d ms",
		sent, lost, refused, observe.Count(restarts, "restart"), gap.Length.Milliseconds())
}

func (c ClientState) row() timeline.Client {
	records := c.Records
	row := timeline.Client{
		Name:    c.Kind + " @ " + c.Listener,
		Note:    fmt.Sprintf("%d sent, %d lost", records.Sent, records.Unread+records.Failed),
		Ok:      c.Refusals()+records.Unread+records.Failed == 0,
		Width:   records.Acks.Width,
		Counts:  records.Acks.Counts,
		GapFrom: records.LongestGap.From,
		GapTo:   records.LongestGap.From.Add(records.LongestGap.Length),
		GapText: strconv.FormatInt(records.LongestGap.Length.Milliseconds(), 10) + " ms",
	}
	if refusals := c.Refusals(); refusals > 0 {
		row.Note += fmt.Sprintf(", %d refused", refusals)
	}
	for _, failure := range c.Failures {
		row.Failures = append(row.Failures, failure.At)
	}
	return row
}

// presented collects what handshakes showed of each node, from the first client
// or watch that saw it: all see the same leaf of one listener.
func (r Result) presented() map[string][]timeline.Span {
	spans := map[string][]timeline.Span{}
	for _, client := range r.Clients {
		for _, watch := range client.Handshakes {
			if len(spans[watch.Node]) == 0 { // a client without TLS sees none
				spans[watch.Node] = watch.Presents()
			}
		}
	}
	return spans
}
