package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/report/timeline"
)

// nameRoom is what a node's name has beside the labels of its bands.
const nameRoom = plotLeft - margin - 112

// labelRoom is what the name of any other row has.
const labelRoom = plotLeft - margin - 24

func (l *layout) nodes() {
	if len(l.timeline.Nodes) == 0 {
		return
	}
	l.section("NODES")
	for i, node := range l.timeline.Nodes {
		height := stateHeight + bandGap + float64(len(node.Bands))*(bandHeight+bandGap) + 2*nodePadding
		l.row(i, height)
		l.write(margin+8, l.y+nodePadding+stateHeight+12, textSize, bold, fromStart, inkDark, l.fonts.fitEnd(node.Name, textSize, bold, nameRoom))
		l.write(plotRight+12, l.y+nodePadding+stateHeight+12, smallSize, regular, fromStart, inkSoft, l.fonts.fit(node.Note, smallSize, regular, pictureWidth-plotRight-margin))
		l.node(node, l.y+nodePadding)
		l.y += height
	}
}

// row draws the ground of every second row.
func (l *layout) row(i int, height float64) {
	if i%2 == 0 {
		l.ground = append(l.ground, box{x: margin, y: l.y, w: pictureWidth - 2*margin, h: height, radius: 4, fill: opaque(stripe)})
	}
}

func (l *layout) node(node timeline.Node, top float64) {
	for _, state := range node.States {
		l.span(state.From, state.To, top, stateHeight, stateInk(state.Condition),
			fmt.Sprintf("%s: %s", node.Name, state.Condition))
	}
	top += stateHeight + bandGap
	for _, band := range node.Bands {
		l.write(plotLeft-10, top+11, smallSize, regular, toEnd, inkSoft, band.Label)
		for _, span := range band.Spans {
			for _, part := range without(span, node.States) {
				l.band(band.Label, part, top)
			}
		}
		top += bandHeight + bandGap
	}
}

func stateInk(condition timeline.Condition) paint {
	switch condition {
	case timeline.Ready:
		return opaque(readyInk)
	case timeline.NotReady:
		return opaque(warnInk)
	case timeline.Down:
		return opaque(bad)
	default:
		return opaque(inkFaint)
	}
}

// band shares the height between the values of a span, and names them where
// there is room.
func (l *layout) band(name string, span timeline.Span, top float64) {
	each := bandHeight / float64(len(span.Values))
	for i, value := range span.Values {
		l.span(span.From, span.To, top+float64(i)*each, each, l.palette.colours[value], name+" "+strings.Join(span.Values, " + "))
	}
	if len(span.Values) != 1 {
		return
	}
	left, right := l.axis.x(span.From), l.axis.x(span.To)
	if text := span.Values[0]; l.fonts.width(text, tinySize, regular) < right-left-12 {
		l.captions = append(l.captions, label{
			x: left + 6, y: top + 11, size: tinySize, weight: regular, anchor: fromStart,
			fill: opaque(readableOn(l.palette.colours[text])), text: text,
		})
	}
}

// span draws a stretch of time, at least as wide as can be seen.
func (l *layout) span(from, to time.Time, top, height float64, fill paint, hint string) {
	left, right := l.axis.x(from), l.axis.x(to)
	l.add(box{x: left, y: top, w: max(right-left, 1), h: height, fill: fill, hint: hint})
}

// without cuts the times in which the node was down out of a span: a node that
// is not there trusts and presents nothing.
func without(span timeline.Span, states []timeline.State) []timeline.Span {
	parts := []timeline.Span{span}
	for _, state := range states {
		if state.Condition != timeline.Down {
			continue
		}
		rest := make([]timeline.Span, 0, len(parts)+1)
		for _, part := range parts {
			rest = append(rest, subtract(part, state)...)
		}
		parts = rest
	}
	return parts
}

func subtract(span timeline.Span, state timeline.State) []timeline.Span {
	if !state.To.After(span.From) || !state.From.Before(span.To) {
		return []timeline.Span{span}
	}
	var parts []timeline.Span
	if state.From.After(span.From) {
		parts = append(parts, timeline.Span{From: span.From, To: state.From, Values: span.Values})
	}
	if state.To.Before(span.To) {
		parts = append(parts, timeline.Span{From: state.To, To: span.To, Values: span.Values})
	}
	return parts
}

func (l *layout) clients() {
	if len(l.timeline.Clients) == 0 {
		return
	}
	l.section(fmt.Sprintf("CLIENTS · acknowledged %s per %d ms", l.timeline.Counted, l.clientWidth().Milliseconds()))
	full := fullHeight(l.timeline.Clients)
	for i, client := range l.timeline.Clients {
		l.row(i, clientHeight)
		l.client(client, full)
		l.y += clientHeight
	}
}

func (l *layout) client(client timeline.Client, full float64) {
	ink := uint32(good)
	if !client.Ok {
		ink = bad
	}
	middle := l.y + clientHeight/2 + 4
	l.write(margin+8, middle, textSize, bold, fromStart, inkDark, l.fonts.fit(client.Name, textSize, bold, labelRoom))
	l.write(plotRight+12, middle, smallSize, regular, fromStart, ink, l.fonts.fit(client.Note, smallSize, regular, pictureWidth-plotRight-margin))
	l.gap(client)
	l.acks(client, full)
	for _, failure := range client.Failures {
		l.add(box{x: l.axis.x(failure) - 0.75, y: l.y + 3, w: 1.5, h: 11, fill: opaque(bad), hint: client.Name + ": " + l.timeline.Failure})
	}
}

func (l *layout) watches() {
	if len(l.timeline.Watches) == 0 {
		return
	}
	l.section("WATCHERS · fresh connections, a line per node")
	for i, watch := range l.timeline.Watches {
		height := 2*nodePadding + float64(max(len(watch.Lines), 2))*(stateHeight+bandGap)
		l.row(i, height)
		ink := uint32(good)
		if !watch.Ok {
			ink = bad
		}
		l.write(margin+8, l.y+height/2+4, textSize, bold, fromStart, inkDark, l.fonts.fit(watch.Name, textSize, bold, labelRoom))
		l.write(plotRight+12, l.y+height/2+4, smallSize, regular, fromStart, ink, l.fonts.fit(watch.Note, smallSize, regular, pictureWidth-plotRight-margin))
		for line, seen := range watch.Lines {
			top := l.y + nodePadding + float64(line)*(stateHeight+bandGap)
			for _, span := range seen {
				l.span(span.From, span.To, top, stateHeight, answerInk(span.Answer), watch.Name+": "+string(span.Answer))
			}
		}
		l.y += height
	}
}

func answerInk(answer timeline.Answer) paint {
	switch answer {
	case timeline.Accepted:
		return opaque(readyInk)
	case timeline.Refused:
		return opaque(bad)
	default:
		return opaque(inkFaint)
	}
}

// fullHeight is the count that fills a row: a half more than the usual one. What
// arrives at once after a gap would otherwise make everything else flat.
func fullHeight(clients []timeline.Client) float64 {
	const headroom = 1.5
	var counts []uint32
	for _, client := range clients {
		for _, count := range client.Counts {
			if count > 0 {
				counts = append(counts, count)
			}
		}
	}
	if len(counts) == 0 {
		return 1
	}
	slices.Sort(counts)
	return headroom * float64(counts[len(counts)/2])
}

// shownGap is the shortest gap that is worth a reader's eye.
const shownGap = 250 * time.Millisecond

func (l *layout) gap(client timeline.Client) {
	if client.GapTo.Sub(client.GapFrom) < shownGap {
		return
	}
	left, right := l.axis.x(client.GapFrom), l.axis.x(client.GapTo)
	l.add(box{x: left, y: l.y + 2, w: max(right-left, 1), h: clientHeight - 4, fill: opaque(badPale), hint: "longest gap " + client.GapText})
	l.write((left+right)/2, l.y+11, tinySize, regular, atMiddle, bad, client.GapText)
}

// acks draws one step per bucket, or per unit of width where buckets are narrower
// than that: the mean, so that the height means the same at every zoom.
func (l *layout) acks(client timeline.Client, full float64) {
	if client.Width <= 0 || len(client.Counts) == 0 {
		return
	}
	const top, bottom = 14.0, 5.0
	base, room := l.y+clientHeight-bottom, clientHeight-top-bottom
	merge := max(1, int(float64(l.axis.length/client.Width)/plotWidth))
	points := []point{{x: l.axis.left, y: base}}
	for i := 0; i < len(client.Counts); i += merge {
		end := min(i+merge, len(client.Counts))
		var sum uint32
		for _, count := range client.Counts[i:end] {
			sum += count
		}
		height := room * min(float64(sum)/float64(end-i)/full, 1)
		from, to := l.bucket(client, i), l.bucket(client, end)
		points = append(points, point{x: from, y: base - height}, point{x: to, y: base - height})
	}
	last := points[len(points)-1].x
	points = append(points, point{x: last, y: base})
	l.add(area{points: points, fill: opaque(ackFill)})
	l.add(box{x: plotLeft, y: base, w: plotWidth, h: 0.75, fill: translucent(inkFaint, 0x80)})
}

func (l *layout) bucket(client timeline.Client, i int) float64 {
	return l.axis.x(l.axis.start.Add(time.Duration(i) * client.Width))
}
