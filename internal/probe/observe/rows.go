package observe

import (
	"cmp"
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

// seen draws each answer until the next one came, unless that took too long to know what was in between.
func (w *Watch) seen() []timeline.Seen {
	line := make([]timeline.Seen, 0, len(w.Spans))
	for i, span := range w.Spans {
		to := span.To
		if i+1 < len(w.Spans) && w.Spans[i+1].From.Sub(to) <= unwatched {
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
func (w *Watch) Presents() []timeline.Span {
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

// bandPresentsTo begins the label of a band of CAs that signed what the node says it presents to peers of a kind.
const bandPresentsTo = "presents to "

// Row is the row of the node, with what handshakes showed of it as the last band.
func (l Log) Row(presents timeline.Band) timeline.Node {
	row := timeline.Node{Name: l.Node, Note: Count(l.Restarts, "restart")}
	trusts, issuers := map[string][]timeline.Span{}, map[string][]timeline.Span{}
	for _, state := range l.States {
		row.States = append(row.States, timeline.State{From: state.From, To: state.To, Condition: state.condition()})
		state.extend(trusts, state.Trusts)
		state.extend(issuers, state.Issuers)
	}
	row.Bands = append(append(bands(BandTrusts, trusts), bands(bandPresentsTo, issuers)...), presents)
	return row
}

func bands(label string, spans map[string][]timeline.Span) []timeline.Band {
	bands := make([]timeline.Band, 0, len(spans))
	for _, kind := range slices.Sorted(maps.Keys(spans)) {
		bands = append(bands, timeline.Band{Label: label + kind, Spans: spans[kind]})
	}
	return bands
}

// extend adds a state to the spans of each band that it has names for.
func (s State) extend(spans map[string][]timeline.Span, names map[string][]string) {
	for kind, values := range names {
		spans[kind] = extended(spans[kind], timeline.Span{From: s.From, To: s.To, Values: values})
	}
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

// IssuerName is the AuthorityName of the authority that signed a certificate.
func IssuerName(certificate *x509.Certificate) string {
	return authorityName(certificate.Issuer.CommonName, hex.EncodeToString(certificate.AuthorityKeyId))
}

// Named are the names of anchors by fingerprint, sorted; one without a name keeps its fingerprint.
func Named(fingerprints []string, names map[string]string) []string {
	out := make([]string, 0, len(fingerprints))
	for _, fingerprint := range fingerprints {
		out = append(out, cmp.Or(names[fingerprint], fingerprint))
	}
	slices.Sort(out)
	return out
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
