package picture

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// fontFamily prefers the font that texts are measured with.
const fontFamily = "Go, 'Helvetica Neue', Helvetica, Arial, sans-serif"

// svg collects the text of an SVG file.
type svg struct{ text strings.Builder }

func writeSVG(p *picture) []byte {
	out := &svg{}
	fmt.Fprintf(&out.text, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" font-family="%s">`+"\n",
		coordinate(p.width), coordinate(p.height), coordinate(p.width), coordinate(p.height), fontFamily)
	for _, shape := range p.shapes {
		shape.writeSVG(out)
	}
	out.text.WriteString("</svg>\n")
	return []byte(out.text.String())
}

// coordinate rounds to what the eye can see, so that the file is small and the
// same everywhere.
func coordinate(v float64) string {
	text := strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0")
	text = strings.TrimSuffix(text, ".")
	if text == "-0" {
		return "0"
	}
	return text
}

func (s *svg) fill(p paint) string {
	text := fmt.Sprintf(`fill="#%02x%02x%02x"`, p.R, p.G, p.B)
	if p.A != 0xff {
		text += ` fill-opacity="` + coordinate(float64(p.A)/0xff) + `"`
	}
	return text
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder takes everything
	return out.String()
}

func (b box) writeSVG(out *svg) {
	fmt.Fprintf(&out.text, `<rect x="%s" y="%s" width="%s" height="%s"`,
		coordinate(b.x), coordinate(b.y), coordinate(b.w), coordinate(b.h))
	if b.radius > 0 {
		fmt.Fprintf(&out.text, ` rx="%s"`, coordinate(b.radius))
	}
	fmt.Fprintf(&out.text, " %s", out.fill(b.fill))
	if b.hint == "" {
		out.text.WriteString("/>\n")
		return
	}
	fmt.Fprintf(&out.text, "><title>%s</title></rect>\n", escaped(b.hint))
}

func (a area) writeSVG(out *svg) {
	out.text.WriteString(`<path d="`)
	for i, p := range a.points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		out.text.WriteString(command + coordinate(p.x) + " " + coordinate(p.y))
	}
	fmt.Fprintf(&out.text, "Z\" %s/>\n", out.fill(a.fill))
}

func (l label) writeSVG(out *svg) {
	fmt.Fprintf(&out.text, `<text x="%s" y="%s" font-size="%s"`, coordinate(l.x), coordinate(l.y), coordinate(l.size))
	if l.weight == bold {
		out.text.WriteString(` font-weight="bold"`)
	}
	if l.anchor != fromStart {
		fmt.Fprintf(&out.text, ` text-anchor="%s"`, l.anchor)
	}
	fmt.Fprintf(&out.text, " %s>%s</text>\n", out.fill(l.fill), escaped(l.text))
}
