package observe

import (
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// shortKeyID is as much of a key's identifier as a person compares.
const shortKeyID = 8

// WatchRow is the row of a watch, with a line for each node.
func WatchRow(name string, watches []Watch) timeline.Watch {
	fresh := Sum(watches)
	row := timeline.Watch{Name: name, Note: fmt.Sprintf("%d accepted", fresh.Accepted), Ok: fresh.Refused == 0}
	if fresh.Refused > 0 {
		row.Note += fmt.Sprintf(", %d refused", fresh.Refused)
	}
	for _, watch := range watches {
		row.Lines = append(row.Lines, watch.seen())
	}
	return row
}

// seen draws each answer until the next one came.
func (w Watch) seen() []timeline.Seen {
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

// silence is how long a node may show nothing in between and count as presenting the same.
const silence = 2 * time.Second

// Presents are the CAs that signed what the node presented. It joins the spans of one CA over
// moments without an answer that are too short to matter.
func (w Watch) Presents() []timeline.Span {
	var spans []timeline.Span
	for _, span := range w.Spans {
		if span.Presented.Leaf == "" {
			continue
		}
		values := []string{authorityName(span.Presented.Issuer, span.Presented.Authority)}
		last := len(spans) - 1
		if last >= 0 && slices.Equal(spans[last].Values, values) && span.From.Sub(spans[last].To) <= silence {
			spans[last].To = span.To
			continue
		}
		spans = append(spans, timeline.Span{From: span.From, To: span.To, Values: values})
	}
	return spans
}

// BandTrusts begins the label of a band of CAs by which the node accepts peers of a kind.
const BandTrusts = "trusts "

// Row is the row of the node, with what handshakes showed of it as the last band.
func (l Log) Row(presents timeline.Band) timeline.Node {
	row := timeline.Node{Name: l.Node, Note: Count(l.Restarts, "restart")}
	trusts := map[string][]timeline.Span{}
	for _, state := range l.States {
		row.States = append(row.States, timeline.State{From: state.From, To: state.To, Condition: state.condition()})
		for whom, anchors := range state.Trusts {
			trusts[whom] = extended(trusts[whom], timeline.Span{From: state.From, To: state.To, Values: anchors})
		}
	}
	for _, whom := range slices.Sorted(maps.Keys(trusts)) {
		row.Bands = append(row.Bands, timeline.Band{Label: BandTrusts + whom, Spans: trusts[whom]})
	}
	row.Bands = append(row.Bands, presents)
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

func (s State) condition() timeline.Condition {
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

// Count is a number with its noun.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
