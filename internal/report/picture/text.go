package picture

import (
	"fmt"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// fonts are those whose widths texts are laid out with.
type fonts struct {
	regular, bold *opentype.Font
	measure       map[weight]font.Face
}

// measureSize is the size in which widths are measured.
const measureSize = 100

func loadFonts() (*fonts, error) {
	loaded := &fonts{measure: map[weight]font.Face{}}
	var err error
	if loaded.regular, err = opentype.Parse(goregular.TTF); err != nil {
		return nil, fmt.Errorf("reading font: %w", err)
	}
	if loaded.bold, err = opentype.Parse(gobold.TTF); err != nil {
		return nil, fmt.Errorf("reading font: %w", err)
	}
	for _, w := range []weight{regular, bold} {
		face, err := opentype.NewFace(loaded.of(w), &opentype.FaceOptions{Size: measureSize, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			return nil, fmt.Errorf("opening font: %w", err)
		}
		loaded.measure[w] = face
	}
	return loaded, nil
}

func (f *fonts) of(w weight) *opentype.Font {
	if w == bold {
		return f.bold
	}
	return f.regular
}

// width of a text in units of the picture.
func (f *fonts) width(text string, size float64, w weight) float64 {
	return float64(font.MeasureString(f.measure[w], text)) / 64 * size / measureSize
}

// fit shortens a text until it has room, with an ellipsis at its end.
func (f *fonts) fit(text string, size float64, w weight, room float64) string {
	if f.width(text, size, w) <= room {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && f.width(string(runes)+"…", size, w) > room {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// fitEnd shortens a text at its beginning: names of pods differ at the end.
func (f *fonts) fitEnd(text string, size float64, w weight, room float64) string {
	if f.width(text, size, w) <= room {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && f.width("…"+string(runes), size, w) > room {
		runes = runes[1:]
	}
	return "…" + string(runes)
}
