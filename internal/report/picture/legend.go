package picture

import (
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// entry explains one colour.
type entry struct {
	fill paint
	text string
	w, h float64
}

func (l *layout) legend() {
	l.y += 14
	entries := l.entries()
	x := margin + 8
	for _, e := range entries {
		width := e.w + 6 + l.fonts.width(e.text, smallSize, regular) + 20
		if x+width > pictureWidth-margin {
			x = margin + 8
			l.y += legendLine
		}
		l.add(box{x: x, y: l.y + 6 - e.h/2, w: e.w, h: e.h, radius: min(2, e.h/4), fill: e.fill})
		l.write(x+e.w+6, l.y+10, smallSize, regular, fromStart, inkSoft, e.text)
		x += width
	}
	l.y += legendLine
}

func (l *layout) entries() []entry {
	var entries []entry
	for _, value := range l.palette.order {
		entries = append(entries, entry{fill: l.palette.colours[value], text: value, w: 14, h: 11})
	}
	if len(l.timeline.Nodes) > 0 {
		for _, condition := range []timeline.Condition{timeline.Ready, timeline.NotReady, timeline.Down} {
			entries = append(entries, entry{fill: stateInk(condition), text: string(condition), w: 18, h: stateHeight})
		}
	}
	if len(l.timeline.Clients) > 0 {
		entries = append(entries,
			entry{fill: opaque(ackFill), text: "acknowledged", w: 14, h: 11},
			entry{fill: opaque(badPale), text: "longest gap", w: 14, h: 11},
			entry{fill: opaque(bad), text: l.timeline.Failure, w: 2, h: 11})
	}
	if len(l.timeline.Watches) > 0 {
		for _, answer := range []timeline.Answer{timeline.Accepted, timeline.Refused, timeline.Unanswered} {
			entries = append(entries, entry{fill: answerInk(answer), text: string(answer), w: 18, h: stateHeight})
		}
	}
	return entries
}
