package picture

import (
	"time"

	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Measures of the picture, in its units.
const (
	pictureWidth = 1280.0
	margin       = 28.0
	plotLeft     = 292.0
	plotRight    = 1092.0
	plotWidth    = plotRight - plotLeft

	titleSize = 21.0
	textSize  = 13.0
	smallSize = 11.0
	tinySize  = 10.0

	headHeight    = 76.0
	axisHeight    = 22.0
	laneHeight    = 19.0
	sectionHeight = 28.0
	stateHeight   = 5.0
	bandHeight    = 15.0
	bandGap       = 3.0
	nodePadding   = 9.0
	clientHeight  = 46.0
	legendLine    = 20.0
)

// layout is the work on one picture: y moves down as rows are added.
type layout struct {
	*picture

	timeline timeline.Timeline
	axis     axis
	fonts    *fonts
	palette  palette
	y        float64
	// rowsTop is where lines through all rows begin.
	rowsTop float64
	// ground lies below the lines through all rows, and captions above them.
	ground, captions []shape
}

// Render draws a time line.
func Render(t timeline.Timeline) (report.Picture, error) {
	fonts, err := loadFonts()
	if err != nil {
		return nil, err
	}
	return writeSVG(arrange(t, fonts)), nil
}

// arrange lays out rows first, because what lies behind them needs their height.
func arrange(t timeline.Timeline, fonts *fonts) *picture {
	l := &layout{
		picture: &picture{width: pictureWidth}, timeline: t, fonts: fonts,
		axis: newAxis(t, plotLeft, plotWidth), palette: newPalette(t.Nodes),
	}
	l.head()
	l.marks()
	l.axisLabels()
	above := len(l.shapes)
	l.nodes()
	l.clients()
	l.watches()
	rows := l.cut(above)
	l.add(l.ground...)
	l.gridLines()
	l.add(rows...)
	l.markLines()
	l.add(l.captions...)
	l.legend()
	l.height = l.y + margin/2
	l.shapes = append([]shape{box{w: l.width, h: l.height, fill: opaque(paper)}}, l.shapes...)
	return l.picture
}

// cut takes the shapes from an index on out of the picture.
func (l *layout) cut(from int) []shape {
	rows := append([]shape(nil), l.shapes[from:]...)
	l.shapes = l.shapes[:from]
	return rows
}

func (l *layout) write(x, y, size float64, w weight, a anchor, ink uint32, text string) {
	l.add(label{x: x, y: y, size: size, weight: w, anchor: a, fill: opaque(ink), text: text})
}

func (l *layout) head() {
	ink, pale, word := uint32(good), uint32(goodPale), "OK"
	if !l.timeline.Ok {
		ink, pale, word = bad, badPale, "FAILED"
	}
	const pillTop, pillHeight = 20.0, 24.0
	width := l.fonts.width(word, textSize, bold) + 22
	l.add(box{x: margin, y: pillTop, w: width, h: pillHeight, radius: pillHeight / 2, fill: opaque(pale)})
	l.write(margin+width/2, pillTop+16.5, textSize, bold, atMiddle, ink, word)
	room := pictureWidth - 2*margin - width - 12
	l.write(margin+width+12, pillTop+19, titleSize, bold, fromStart, inkDark, l.fonts.fit(l.timeline.Title, titleSize, bold, room))
	verdict := l.fonts.fit(l.timeline.Verdict, textSize, regular, pictureWidth-2*margin)
	l.write(margin, pillTop+47, textSize, regular, fromStart, inkSoft, verdict)
	l.y = headHeight + 10
}

func (l *layout) axisLabels() {
	for _, tick := range l.axis.ticks() {
		x := l.axis.x(l.axis.start.Add(tick))
		l.write(x, l.y+14, smallSize, regular, atMiddle, inkFaint, elapsed(tick))
	}
	l.y += axisHeight
	l.rowsTop = l.y
}

func (l *layout) gridLines() {
	for _, tick := range l.axis.ticks() {
		l.vertical(l.axis.x(l.axis.start.Add(tick)), l.rowsTop, l.y, 1, 0, opaque(grid))
	}
}

// marks writes the texts of the marks into as many lanes as they need.
func (l *layout) marks() {
	var ends []float64
	for _, mark := range l.timeline.Marks {
		x := l.axis.x(mark.At)
		text := l.fonts.fit(mark.Text, smallSize, regular, plotWidth/2)
		width := l.fonts.width(text, smallSize, regular) + 12
		left := min(x, plotRight+margin-width)
		lane := 0
		for lane < len(ends) && ends[lane] > left {
			lane++
		}
		if lane == len(ends) {
			ends = append(ends, 0)
		}
		ends[lane] = left + width + 4
		top := l.y + float64(lane)*laneHeight
		l.add(box{x: left, y: top, w: width, h: laneHeight - 3, radius: 3, fill: opaque(markPale)})
		l.write(left+6, top+11.5, smallSize, regular, fromStart, markInk, text)
	}
	l.y += float64(len(ends)) * laneHeight
}

func (l *layout) markLines() {
	for _, mark := range l.timeline.Marks {
		l.vertical(l.axis.x(mark.At), l.rowsTop-4, l.y, 1.2, 3, translucent(markInk, 0xb0))
	}
}

func (l *layout) section(title string) {
	l.y += 6
	l.write(margin, l.y+16, smallSize, bold, fromStart, inkSoft, title)
	l.y += sectionHeight
}

func (l *layout) clientWidth() time.Duration {
	for _, client := range l.timeline.Clients {
		if client.Width > 0 {
			return client.Width
		}
	}
	return 0
}
