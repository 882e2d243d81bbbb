package rotation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// MaxEncoded is the longest encoding of a record, in bytes: the two of a cluster stand in
// one ConfigMap, which holds 1 MiB with all that is said about it.
const MaxEncoded = 480 << 10

// What is read may have been written by anybody, and must not take much more room than its
// text. A record that takes MaxEncoded has some 8,000 objects, and names some 100,000 anchors.
const (
	maxObjects  = 16 << 10
	maxUnfolded = 512 << 10
)

// TooLongError says that a record takes more than MaxEncoded whatever is left out.
type TooLongError struct {
	Domain string
	Bytes  int
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the record of the trust in the %s takes %d bytes, and there is room for %d", e.Domain, e.Bytes, MaxEncoded)
}

// readable refuses a text that no record can have, before it is decoded.
func readable(text string) error {
	if len(text) > MaxEncoded {
		return fmt.Errorf("parsing a record of trust: it has %d bytes, and no record has more than %d", len(text), MaxEncoded)
	}
	if objects := strings.Count(text, "{"); objects > maxObjects {
		return fmt.Errorf("parsing a record of trust: it has %d objects, and no record has more than %d", objects, maxObjects)
	}
	return nil
}

// excerpt cuts the texts of the record that somebody else may have written, or that name
// one thing after the other.
func (r Record) excerpt() Record {
	text := func(s *string) { *s = excerpt.Of(*s, excerpt.Foreign) }
	r.Refused = excerpt.Of(r.Refused, excerpt.Listed)
	text(&r.Snapshot.Policy.ReloadRefused)
	r.Snapshot.Anchors = slices.Clone(r.Snapshot.Anchors)
	for i := range r.Snapshot.Anchors {
		text(&r.Snapshot.Anchors[i].NoCross)
	}
	r.Anchors, r.Members = maps.Clone(r.Anchors), maps.Clone(r.Members)
	for id, name := range r.Anchors {
		text(&name.CommonName)
		text(&name.Entry)
		text(&name.CannotVouch)
		r.Anchors[id] = name
	}
	for id, facts := range r.Members {
		text(&facts.Trouble)
		r.Members[id] = facts
	}
	return r
}
