package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/publication"
)

// WaitingError says what is still missing for a start. It is no failure: the
// kubelet will mount it, or the operator will publish it.
type WaitingError struct {
	// For names each missing thing, sorted; names and fingerprints only.
	For []string
}

func (e *WaitingError) Error() string { return "waiting for " + strings.Join(e.For, "; ") }

// Missing collects what is missing for a start.
type Missing struct {
	list []string
}

// Add names one more missing thing.
func (m *Missing) Add(format string, args ...any) {
	m.list = append(m.list, fmt.Sprintf(format, args...))
}

// Empty reports whether nothing is missing.
func (m *Missing) Empty() bool { return len(m.list) == 0 }

// Err returns a WaitingError that names everything at once, nil when nothing is missing.
func (m *Missing) Err() error {
	if m.Empty() {
		return nil
	}
	return &WaitingError{For: slices.Compact(slices.Sorted(slices.Values(m.list)))}
}

// Publication returns the publication in the member's mounted Secret, and the pin of the process in the
// pod's mounted annotations. It adds what is missing of them, a publication that is older
// than the pin included: a kubelet may mount what it has cached.
func (m *Missing) Publication(secret, pod map[string][]byte, process string) (published, pin publication.Publication) {
	pin, err := ParsePin(pod[AnnotationsFile], process)
	if err != nil {
		m.Add("a readable annotation %s of the pod (%v)", AnnotationOf(process, PinAnnotation), err)
		return published, pin
	}
	data, found := secret[PublicationKey]
	if !found {
		m.Add("%s in the node's Secret", PublicationKey)
		return published, pin
	}
	published, err = publication.ParsePublication(data)
	switch {
	case err != nil:
		m.Add("a readable %s in the node's Secret (%v)", PublicationKey, err)
	case published.Revision < pin.Revision:
		m.Add("publication revision %d or newer (revision %d is mounted)", pin.Revision, published.Revision)
	}
	return published, pin
}
