package picture

import "image/color"

// Shapes are all that a picture is made of.
type shape interface {
	writeSVG(out *svg)
}

// paint is a colour with its opacity.
type paint = color.NRGBA

func opaque(rgb uint32) paint {
	return paint{R: uint8(rgb >> 16 & 0xff), G: uint8(rgb >> 8 & 0xff), B: uint8(rgb & 0xff), A: 0xff}
}

func translucent(rgb uint32, alpha uint8) paint {
	p := opaque(rgb)
	p.A = alpha
	return p
}

// box is a rectangle with rounded corners.
type box struct {
	x, y, w, h, radius float64
	fill               paint
	// hint is shown by a browser when a person points at the box.
	hint string
}

type point struct{ x, y float64 }

// area is a closed polygon.
type area struct {
	points []point
	fill   paint
}

// anchor is the side of a text that its position means.
type anchor string

const (
	fromStart anchor = "start"
	atMiddle  anchor = "middle"
	toEnd     anchor = "end"
)

// weight of a font.
type weight string

const (
	regular weight = "normal"
	bold    weight = "bold"
)

// label is one line of text; y is its base line.
type label struct {
	x, y   float64
	size   float64
	weight weight
	anchor anchor
	fill   paint
	text   string
}

// picture is what was laid out.
type picture struct {
	width, height float64
	shapes        []shape
}

func (p *picture) add(shapes ...shape) { p.shapes = append(p.shapes, shapes...) }

// vertical is a line from top to bottom; a dash of 0 makes it solid.
func (p *picture) vertical(x, top, bottom, width, dash float64, fill paint) {
	if dash <= 0 {
		p.add(box{x: x - width/2, y: top, w: width, h: bottom - top, fill: fill})
		return
	}
	for y := top; y < bottom; y += 2 * dash {
		p.add(box{x: x - width/2, y: y, w: width, h: min(dash, bottom-y), fill: fill})
	}
}
