package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// scale is the number of pixels of the PNG for one unit of the picture, so that
// small text can be read on any screen.
const scale = 2

// kappa makes a cubic curve follow a quarter of a circle.
const kappa = 0.5523

// raster draws shapes into an image.
type raster struct {
	image *image.RGBA
	fonts *fonts
	faces map[faceKey]font.Face
	err   error
}

type faceKey struct {
	size   float64
	weight weight
}

func writePNG(p *picture, fonts *fonts) ([]byte, error) {
	bounds := image.Rect(0, 0, int(p.width*scale), int(p.height*scale))
	on := &raster{image: image.NewRGBA(bounds), fonts: fonts, faces: map[faceKey]font.Face{}}
	for _, shape := range p.shapes {
		shape.draw(on)
	}
	if on.err != nil {
		return nil, on.err
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, on.image); err != nil {
		return nil, fmt.Errorf("encoding picture: %w", err)
	}
	return out.Bytes(), nil
}

// paint fills what path describes, whose coordinates are relative to a corner
// and whose size is given, in units of the picture.
func (r *raster) paint(x, y, w, h float64, fill paint, path func(z *vector.Rasterizer, dx, dy float32)) {
	corner := image.Pt(int(x*scale)-1, int(y*scale)-1)
	within := image.Rectangle{Min: corner, Max: corner.Add(image.Pt(int(w*scale)+3, int(h*scale)+3))}
	within = within.Intersect(r.image.Bounds()) // the rasterizer does not clip its target
	if within.Empty() {
		return
	}
	z := vector.NewRasterizer(within.Dx(), within.Dy())
	path(z, float32(within.Min.X), float32(within.Min.Y))
	z.Draw(r.image, within, image.NewUniform(fill), image.Point{})
}

func (b box) draw(on *raster) {
	on.paint(b.x, b.y, b.w, b.h, b.fill, func(z *vector.Rasterizer, dx, dy float32) {
		left, top := float32(b.x*scale)-dx, float32(b.y*scale)-dy
		right, bottom := left+float32(b.w*scale), top+float32(b.h*scale)
		r := min(float32(b.radius*scale), (right-left)/2, (bottom-top)/2)
		c := r * (1 - kappa)
		z.MoveTo(left+r, top)
		z.LineTo(right-r, top)
		z.CubeTo(right-c, top, right, top+c, right, top+r)
		z.LineTo(right, bottom-r)
		z.CubeTo(right, bottom-c, right-c, bottom, right-r, bottom)
		z.LineTo(left+r, bottom)
		z.CubeTo(left+c, bottom, left, bottom-c, left, bottom-r)
		z.LineTo(left, top+r)
		z.CubeTo(left, top+c, left+c, top, left+r, top)
		z.ClosePath()
	})
}

func (a area) draw(on *raster) {
	if len(a.points) == 0 {
		return
	}
	low, high := a.points[0], a.points[0]
	for _, p := range a.points {
		low = point{x: min(low.x, p.x), y: min(low.y, p.y)}
		high = point{x: max(high.x, p.x), y: max(high.y, p.y)}
	}
	on.paint(low.x, low.y, high.x-low.x, high.y-low.y, a.fill, func(z *vector.Rasterizer, dx, dy float32) {
		for i, p := range a.points {
			x, y := float32(p.x*scale)-dx, float32(p.y*scale)-dy
			if i == 0 {
				z.MoveTo(x, y)
				continue
			}
			z.LineTo(x, y)
		}
		z.ClosePath()
	})
}

func (l label) draw(on *raster) {
	face, err := on.face(faceKey{size: l.size, weight: l.weight})
	if err != nil {
		on.err = err
		return
	}
	drawer := font.Drawer{Dst: on.image, Src: image.NewUniform(l.fill), Face: face}
	x := fixed.Int26_6(l.x * scale * 64)
	switch l.anchor {
	case atMiddle:
		x -= drawer.MeasureString(l.text) / 2
	case toEnd:
		x -= drawer.MeasureString(l.text)
	case fromStart:
	}
	drawer.Dot = fixed.Point26_6{X: x, Y: fixed.Int26_6(l.y * scale * 64)}
	drawer.DrawString(l.text)
}

// face opens a font in a size once per picture.
func (r *raster) face(key faceKey) (font.Face, error) {
	if face, ok := r.faces[key]; ok {
		return face, nil
	}
	face, err := opentype.NewFace(r.fonts.of(key.weight), &opentype.FaceOptions{
		Size: key.size * scale, DPI: 72, Hinting: font.HintingNone,
	})
	if err != nil {
		return nil, fmt.Errorf("opening font: %w", err)
	}
	r.faces[key] = face
	return face, nil
}
