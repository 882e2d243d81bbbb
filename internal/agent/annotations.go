package agent

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/publication"
)

// maxAnnotationLine bounds one line of the downward API file: Kubernetes keeps
// all annotations of an object below 256 KiB, quoting may quadruple that.
const maxAnnotationLine = 1 << 20

// ParseAnnotations reads the file the downward API makes of a pod's
// annotations: one key="value" a line, the value quoted as a Go string.
func ParseAnnotations(data []byte) (map[string]string, error) {
	annotations := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxAnnotationLine)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		key, quoted, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("parsing pod annotations: the line of %q has no value", key)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("parsing pod annotation %s: %w", key, err)
		}
		annotations[key] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("parsing pod annotations: %w", err)
	}
	return annotations, nil
}

// ParsePin reads the publication that a process of the pod was created under from the mounted annotations. A process that
// has the pod to itself has no name.
func ParsePin(data []byte, process string) (publication.Publication, error) {
	annotations, err := ParseAnnotations(data)
	if err != nil {
		return publication.Publication{}, err
	}
	return publication.ParsePublication([]byte(annotations[AnnotationOf(process, PinAnnotation)]))
}
