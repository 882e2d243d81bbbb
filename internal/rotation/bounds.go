package rotation

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// MaxEncoded is the longest encoding of a record, in bytes: the two of a cluster are in one ConfigMap, which holds 1 MiB with all that
// is said about it.
const MaxEncoded = 480 << 10

// maxText is the longest JSON of a record, in bytes. In the middle of a rotation 1,000 nodes take up to 7 MiB.
const maxText = 8 << 20

// limit is how much there may be of something in a record.
type limit struct {
	what, symbol string
	most         int
}

// limits keep a record that an attacker has written from taking all memory: two bytes may become a role, which takes 320.
func limits() []limit {
	return []limit{
		{what: "objects", symbol: "{", most: 60 << 10},
		{what: "values", symbol: ",", most: 160 << 10},
		{what: "nulls", symbol: "null", most: 4 << 10},
	}
}

func (l limit) check(count int) error {
	if count > l.most {
		return fmt.Errorf("%d %s, and there is room for %d", count, l.what, l.most)
	}
	return nil
}

// checkSize returns an error for JSON that is larger than a record is.
func checkSize(text []byte) error {
	if err := (limit{what: "bytes", most: maxText}).check(len(text)); err != nil {
		return err
	}
	for _, l := range limits() {
		if err := l.check(bytes.Count(text, []byte(l.symbol))); err != nil {
			return err
		}
	}
	return nil
}

// TooLongError says that a record has more of something than is read of one.
type TooLongError struct {
	Domain string
	excess error
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the record of the trust in the %s takes %v", e.Domain, e.excess)
}

// tidy cuts the texts of a record that others may have written, and brings its times into the form that JSON has for them.
func tidy(r *Record) {
	s := &r.Snapshot
	r.Refused = excerpt.Of(r.Refused, excerpt.Listed)
	cut(&s.Policy.ReloadRefused)
	inUTC(&r.StartedAt, &s.Now, &s.Application.Since)
	for i := range s.Anchors {
		a := &s.Anchors[i]
		cut(&a.NoCross)
		inUTC(&a.NotAfter)
		for j := range a.Cross {
			inUTC(&a.Cross[j].NotAfter)
		}
	}
	for i := range s.Members {
		m := &s.Members[i]
		inUTC(&m.LastsUntil)
		for j := range m.Roles {
			inUTC(&m.Roles[j].Evidence.HeldUntil, &m.Roles[j].Evidence.Since)
		}
	}
	for id, name := range r.Anchors {
		cut(&name.CommonName, &name.Entry, &name.CrossSignBlocked)
		inUTC(&name.NotBefore, &name.NotAfter)
		r.Anchors[id] = name
	}
	for id, facts := range r.Members {
		cut(&facts.Trouble)
		inUTC(&facts.LeafNotAfter, &facts.StartedAt, &facts.RestartDue)
		r.Members[id] = facts
	}
}

func cut(texts ...*string) {
	for _, text := range texts {
		*text = excerpt.Of(*text, excerpt.Foreign)
	}
}

// inUTC makes equal times look the same. One that JSON has no words for becomes zero: a member reports its own times, and must not keep
// others from being recorded.
func inUTC(times ...*time.Time) {
	for _, at := range times {
		*at = at.UTC().Round(0)
		if at.Year() < 1 || at.Year() > 9999 {
			*at = time.Time{}
		}
	}
}

// clone copies all of a record that tidying it changes.
func (r Record) clone() Record {
	r.Anchors, r.Members = maps.Clone(r.Anchors), maps.Clone(r.Members)
	r.Snapshot.Anchors, r.Snapshot.Members = slices.Clone(r.Snapshot.Anchors), slices.Clone(r.Snapshot.Members)
	for i := range r.Snapshot.Anchors {
		r.Snapshot.Anchors[i].Cross = slices.Clone(r.Snapshot.Anchors[i].Cross)
	}
	for i := range r.Snapshot.Members {
		r.Snapshot.Members[i].Roles = slices.Clone(r.Snapshot.Members[i].Roles)
	}
	return r
}
