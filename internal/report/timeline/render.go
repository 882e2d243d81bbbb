package timeline

// Rendered is a picture in both forms.
type Rendered struct {
	SVG []byte
	PNG []byte
}

// Render draws a time line.
func Render(Timeline) (Rendered, error) { return Rendered{}, nil }
