package picture

import (
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Colours of what is not a value.
const (
	inkDark   = 0x1f2933
	inkSoft   = 0x66737f
	inkFaint  = 0x9aa5b1
	paper     = 0xffffff
	stripe    = 0xf6f8fa
	grid      = 0xe4e9ee
	good      = 0x1a7f4b
	goodPale  = 0xdff3e7
	bad       = 0xc62828
	badPale   = 0xfde4e1
	ackFill   = 0x4c8fbd
	markInk   = 0x5b4b8a
	markPale  = 0xece8f6
	readyInk  = 0x58b583
	warnInk   = 0xf0b429
	unknownBg = 0xeef1f4
)

// valueColours tell values apart for every kind of sight (after Okabe and Ito).
func valueColours() []uint32 {
	return []uint32{0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0x8c6bb1, 0x7f7f7f}
}

// palette gives each value a colour: values in the order in which they first
// appear in time, so that the old is always the first colour and the new the next.
type palette struct {
	order   []string
	colours map[string]paint
}

func newPalette(nodes []timeline.Node) palette {
	seen := firstSeen(nodes)
	values := slices.Sorted(maps.Keys(seen))
	slices.SortStableFunc(values, func(a, b string) int {
		return seen[a].Compare(seen[b])
	})
	colours := valueColours()
	p := palette{order: values, colours: map[string]paint{}}
	for i, value := range values {
		p.colours[value] = opaque(colours[i%len(colours)])
	}
	return p
}

func firstSeen(nodes []timeline.Node) map[string]time.Time {
	seen := map[string]time.Time{}
	for _, node := range nodes {
		for _, band := range node.Bands {
			for _, span := range band.Spans {
				for _, value := range span.Values {
					if known, ok := seen[value]; !ok || span.From.Before(known) {
						seen[value] = span.From
					}
				}
			}
		}
	}
	return seen
}

// readableOn is dark on light colours and light on dark ones.
func readableOn(fill paint) uint32 {
	const half = 150
	// The weights of the eye for red, green and blue (ITU-R BT.601).
	if (299*int(fill.R)+587*int(fill.G)+114*int(fill.B))/1000 > half {
		return inkDark
	}
	return paper
}
