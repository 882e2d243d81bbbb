package probe

import (
	"cmp"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/verdict"
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
func (r Result) handshakes(who, listener string, nodes []NodeWatch) []report.Handshakes {
	var out []report.Handshakes
	for _, node := range nodes {
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
	var fresh Tally
	var gap, partitionGap ledger.Gap
	var slowest time.Duration
	for _, client := range r.Clients {
		lost += client.Records.Unread + client.Records.Failed
		refused += client.Refusals()
		fresh = fresh.plus(client.Fresh())
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

// shortKeyID is as much of a key's identifier as a person compares.
const shortKeyID = 8

// Timeline is the picture of a result; title and verdict are the caller's.
func (r Result) Timeline(title string) timeline.Timeline {
	picture := timeline.Timeline{Title: title, Ok: r.Ok(), Start: r.StartedAt, End: r.At, Verdict: r.sentence()}
	for _, mark := range r.Phases {
		picture.Marks = append(picture.Marks, timeline.Mark{At: mark.At, Text: mark.Phase})
	}
	shown := r.presented()
	for _, node := range r.Nodes {
		picture.Nodes = append(picture.Nodes, node.row(shown[node.Node]))
	}
	for _, client := range r.Clients {
		picture.Clients = append(picture.Clients, client.row())
	}
	for _, watch := range r.Watches {
		picture.Watches = append(picture.Watches, watch.row())
	}
	return picture
}

func (w WatchState) row() timeline.Watch {
	fresh := w.Fresh()
	row := timeline.Watch{Name: w.Name + " @ " + w.Listener, Note: fmt.Sprintf("%d accepted", fresh.Accepted), Ok: fresh.Refused == 0}
	if fresh.Refused > 0 {
		row.Note += fmt.Sprintf(", %d refused", fresh.Refused)
	}
	for _, node := range w.Nodes {
		row.Lines = append(row.Lines, node.seen())
	}
	return row
}

// seen draws each answer until the next one came.
func (w *NodeWatch) seen() []timeline.Seen {
	line := make([]timeline.Seen, 0, len(w.Spans))
	for i, span := range w.Spans {
		to := span.To
		if i+1 < len(w.Spans) {
			to = w.Spans[i+1].From
		}
		line = append(line, timeline.Seen{From: span.From, To: to, Answer: answerOf(span.Verdict)})
	}
	return line
}

func answerOf(v verdict.Verdict) timeline.Answer {
	switch v {
	case verdict.Accepted:
		return timeline.Accepted
	case verdict.Refused:
		return timeline.Refused
	default:
		return timeline.Unanswered
	}
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
		sent, lost, refused, count(restarts, "restart"), gap.Length.Milliseconds())
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
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
				spans[watch.Node] = watch.presented()
			}
		}
	}
	return spans
}

// presented joins the spans of one leaf, over moments without an answer too
// short to matter, as long as the same leaf came before and after.
func (w *NodeWatch) presented() []timeline.Span {
	var spans []timeline.Span
	for _, span := range w.Spans {
		if span.Presented.Leaf == "" {
			continue
		}
		values := []string{authorityName(span.Presented.Issuer, span.Presented.Authority)}
		last := len(spans) - 1
		if last >= 0 && slices.Equal(spans[last].Values, values) && span.From.Sub(spans[last].To) <= 2*defaultHandshakeInterval {
			spans[last].To = span.To
			continue
		}
		spans = append(spans, timeline.Span{From: span.From, To: span.To, Values: values})
	}
	return spans
}

// The bands of a node: what it trusts peers of a kind by, and what it presents.
const (
	bandTrusts        = "trusts "
	bandTrustsClients = bandTrusts + "clients"
	bandPresents      = "presents"
)

func (l NodeLog) row(shown []timeline.Span) timeline.Node {
	row := timeline.Node{Name: l.Node, Note: count(l.Restarts, "restart")}
	trusts := map[string][]timeline.Span{}
	for _, state := range l.States {
		row.States = append(row.States, timeline.State{From: state.From, To: state.To, Condition: state.condition()})
		for whom, anchors := range state.Trusts {
			trusts[whom] = extended(trusts[whom], timeline.Span{From: state.From, To: state.To, Values: anchors})
		}
	}
	for _, whom := range sortedKeys(trusts) {
		row.Bands = append(row.Bands, timeline.Band{Label: bandTrusts + whom, Spans: trusts[whom]})
	}
	row.Bands = append(row.Bands, timeline.Band{Label: bandPresents, Spans: shown})
	return row
}

// extended appends a span, or prolongs the last one where it goes on unchanged.
func extended(spans []timeline.Span, next timeline.Span) []timeline.Span {
	last := len(spans) - 1
	if last >= 0 && spans[last].To.Equal(next.From) && slices.Equal(spans[last].Values, next.Values) {
		spans[last].To = next.To
		return spans
	}
	return append(spans, next)
}

func (s NodeState) condition() timeline.Condition {
	switch {
	case !s.Up:
		return timeline.Down
	case !s.Ready:
		return timeline.NotReady
	default:
		return timeline.Ready
	}
}

// authorityName names the key of an authority so that people and colours tell it
// from another one with the same common name.
func authorityName(commonName, keyID string) string {
	return commonName + ", key " + keyID[:min(len(keyID), shortKeyID)]
}

// AuthorityName is the name of an authority in pictures and logs: its common name
// and the beginning of its subject key identifier.
func AuthorityName(certificate *x509.Certificate) string {
	return authorityName(certificate.Subject.CommonName, hex.EncodeToString(certificate.SubjectKeyId))
}
