package rotation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Encode renders the record, deterministically and in little space: a cluster of
// 300 nodes has to fit into a ConfigMap. Of a larger one that takes more than MaxEncoded,
// what does not decide is left out, what people miss least first. A TooLongError says
// that this is not enough.
func (r Record) Encode() (string, error) {
	r = r.excerpt()
	size := 0
	for _, leave := range []func(*Record){
		func(*Record) {},
		func(r *Record) { r.Versions = nil },
		func(r *Record) { r.Members = nil },
		func(r *Record) { r.Anchors = nil },
	} {
		leave(&r)
		text, err := r.encode()
		if err != nil || len(text) <= MaxEncoded {
			return text, err
		}
		size = len(text)
	}
	return "", &TooLongError{Domain: r.Domain, Bytes: size}
}

func (r Record) encode() (string, error) {
	e := encoder{words: r.Words, prints: map[string]ref{}, stores: map[string]ref{}}
	data, err := json.Marshal(e.record(r))
	if e.failure != nil {
		err = e.failure
	}
	if err != nil {
		return "", fmt.Errorf("encoding the record of the %s of %s: %w", r.Domain, r.Cluster, err)
	}
	return string(data), nil
}

// Same reports whether both records say the same, whenever it was and however long
// it has been so. Then there is nothing to write.
func (r Record) Same(other Record) bool {
	r, other = r.timeless(), other.timeless()
	if reflect.DeepEqual(r, other) {
		return true
	}
	one, errOne := r.Encode()
	two, errTwo := other.Encode()
	return errOne == nil && errTwo == nil && one == two
}

func (r Record) timeless() Record {
	r.Snapshot.Now, r.StartedAt = time.Time{}, time.Time{}
	r.Snapshot.Members = slices.Clone(r.Snapshot.Members)
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		m.Roles = slices.Clone(m.Roles)
		for j := range m.Roles {
			m.Roles[j].Evidence.Since = time.Time{}
		}
	}
	return r
}

// encoder fills the tables.
type encoder struct {
	words   *Words
	prints  map[string]ref
	stores  map[string]ref
	table   []wireStores
	failure error
}

func (e *encoder) record(r Record) wireRecord {
	s := &r.Snapshot
	w := wireRecord{
		Format: format, Cluster: r.Cluster, Domain: r.Domain, At: utc(s.Now), StartedAt: utc(r.StartedAt), UserProvided: r.UserProvided, Refused: r.Refused,
		Prints: e.index(s), Issuing: e.prints[string(s.Issuing)],
		Application: wireApplication{Anchors: refs(e, s.Application.Anchors), Since: utc(s.Application.Since)},
		Policy:      e.policy(s.Policy),
		Names:       names(r.Anchors), Facts: facts(r.Members), Versions: r.Versions,
		RestartSeconds: e.tenths(r.RestartSeconds), ReloadSeconds: e.tenths(r.ReloadSeconds),
	}
	for i := range s.Anchors {
		w.Anchors = append(w.Anchors, e.anchor(&s.Anchors[i]))
	}
	for i := range s.Members {
		w.Members = append(w.Members, e.member(&s.Members[i]))
	}
	w.Stores = e.table
	return w
}

// index collects every fingerprint that the snapshot names, sorted.
func (e *encoder) index(s *trust.Snapshot) []string {
	note := func(id string) {
		if id != "" {
			e.prints[id] = 0
		}
	}
	identity := func(i trust.Identity) {
		note(string(i.Signer))
		each(i.Cross, note)
	}
	note(string(s.Issuing))
	each(s.Application.Anchors, note)
	for _, a := range s.Anchors {
		note(string(a.ID))
		note(string(a.Key))
		for _, c := range a.Cross {
			note(string(c.Issuer))
		}
	}
	for i := range s.Members {
		m := &s.Members[i]
		each(m.Published.Main, note)
		each(m.Published.Late, note)
		identity(m.Published.Identity)
		for j := range m.Roles {
			held := &m.Roles[j].Evidence
			for _, stores := range slices.Concat([]trust.Stores{held.Loaded, held.Static}, held.Mounted, held.Loading, held.Persisted) {
				each(stores.Trust, note)
				identity(stores.Identity)
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(e.prints))
	for i, id := range sorted {
		e.prints[id] = ref(i + 1)
	}
	return sorted
}

func each[T ~string](ids []T, note func(string)) {
	for _, id := range ids {
		note(string(id))
	}
}

func refs[T ~string](e *encoder, ids []T) []ref {
	out := make([]ref, 0, len(ids))
	for _, id := range ids {
		out = append(out, e.prints[string(id)])
	}
	return out
}

func (e *encoder) anchor(a *trust.Anchor) wireAnchor {
	w := wireAnchor{
		ID: e.prints[string(a.ID)], Name: a.Name, Key: e.prints[string(a.Key)], NotAfter: utc(a.NotAfter),
		NoCross: a.NoCross, Stored: a.Stored, Compromised: a.Compromised, Kept: a.Kept, Removed: a.Removed, Signs: a.Signs,
	}
	for _, c := range a.Cross {
		w.Cross = append(w.Cross, wireCross{Issuer: e.prints[string(c.Issuer)], NotAfter: utc(c.NotAfter), Distrusted: c.Distrusted})
	}
	return w
}

func (e *encoder) policy(p trust.Policy) wirePolicy {
	return wirePolicy{
		Paused: p.Paused, Reload: e.word(reloadWords(), uint8(p.Reload)), ReloadRefused: p.ReloadRefused,
		Lead: duration(p.Lead), Retirement: e.word(retirementWords(), uint8(p.Retirement)), RestartMargin: duration(p.RestartMargin),
		Issuance: e.word(issuanceWords(), uint8(p.Issuance)),
	}
}

func (e *encoder) member(m *trust.Member) wireMember {
	w := wireMember{
		ID: m.ID, Kind: e.word(kindWords(), uint8(m.Kind)), Restarts: m.Restarts, Leaving: m.Leaving, SecretLost: m.SecretLost,
		Main: e.store(trust.Stores{Trust: m.Published.Main, Identity: m.Published.Identity}),
		Late: e.store(trust.Stores{Trust: m.Published.Late, Identity: m.Published.Identity}), LastsUntil: utc(m.LastsUntil),
	}
	for i := range m.Roles {
		w.Roles = append(w.Roles, e.role(&m.Roles[i]))
	}
	return w
}

func (e *encoder) role(r *trust.Role) wireRole {
	held := &r.Evidence
	return wireRole{
		Name: r.Name, Plane: e.plane(r.Plane), Verifies: r.Verifies, Presents: r.Presents,
		Process: e.word(processWords(), uint8(held.Process)),
		Loaded:  e.store(held.Loaded), Mounted: e.list(held.Mounted), Loading: e.list(held.Loading), Persisted: e.list(held.Persisted), Static: e.store(held.Static),
		HeldUntil: utc(held.HeldUntil), Since: utc(held.Since),
	}
}

// plane is the name of a plane. That of the first is left out, and of a domain without planes
// there is none.
func (e *encoder) plane(p trust.Plane) string {
	at := slices.IndexFunc(e.words.Planes, func(known PlaneWords) bool { return known.Plane == p })
	switch {
	case at > 0:
		return p.Name
	case at < 0 && p != trust.Plane{}:
		e.failure = fmt.Errorf("nobody knows the plane %q", p.Name)
	}
	return ""
}

func (e *encoder) list(stores []trust.Stores) []ref {
	out := make([]ref, 0, len(stores))
	for _, s := range stores {
		out = append(out, e.store(s))
	}
	return out
}

// store enters stores into the table. Empty ones have no entry.
func (e *encoder) store(s trust.Stores) ref {
	w := wireStores{Trust: refs(e, s.Trust), Signer: e.prints[string(s.Identity.Signer)], Cross: refs(e, s.Identity.Cross)}
	if len(w.Trust) == 0 && w.Signer == 0 && len(w.Cross) == 0 {
		return 0
	}
	key := fmt.Sprint(w)
	if at, found := e.stores[key]; found {
		return at
	}
	e.table = append(e.table, w)
	e.stores[key] = ref(len(e.table))
	return ref(len(e.table))
}

// word is the word for a counted value. A value that nobody knows cannot be encoded.
func (e *encoder) word(words []string, value uint8) string {
	if int(value) < len(words) {
		return words[value]
	}
	e.failure = fmt.Errorf("value %d is none of %q", value, words)
	return ""
}

// tenths renders seconds; what is beyond a tenth is noise that nobody should write
// an object for.
func (e *encoder) tenths(seconds float64) json.Number {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		e.failure = fmt.Errorf("%v is no number of seconds", seconds)
		return ""
	}
	if rounded := math.Round(seconds*10) / 10; rounded != 0 {
		return json.Number(strconv.FormatFloat(rounded, 'f', -1, 64))
	}
	return ""
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// utc makes equal times look the same. One that JSON has no words for is none: members and
// whoever may write ConfigMaps name times, and must not keep others from being recorded.
func utc(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

func names(in map[trust.AnchorID]AnchorName) map[trust.AnchorID]AnchorName {
	out := make(map[trust.AnchorID]AnchorName, len(in))
	for id, n := range in {
		n.NotBefore, n.NotAfter = utc(n.NotBefore), utc(n.NotAfter)
		out[id] = n
	}
	return out
}

func facts(in map[trust.MemberID]MemberFacts) map[trust.MemberID]MemberFacts {
	out := make(map[trust.MemberID]MemberFacts, len(in))
	for id, f := range in {
		f.LeafNotAfter, f.StartedAt, f.RestartDue = utc(f.LeafNotAfter), utc(f.StartedAt), utc(f.RestartDue)
		out[id] = f
	}
	return out
}
