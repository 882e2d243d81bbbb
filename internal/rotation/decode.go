package rotation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Parse reads a record as Encode wrote it. It refuses one that another version of
// the operator wrote in another format.
func (w *Words) Parse(text string) (Record, error) {
	if err := readable(text); err != nil {
		return Record{}, err
	}
	var stored wireRecord
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return Record{}, fmt.Errorf("parsing a record of trust: %w", err)
	}
	if stored.Format != format {
		return Record{}, fmt.Errorf("parsing a record of trust: it has format %d and not %d: use the keyturn of the operator's version", stored.Format, format)
	}
	d := decoder{words: w, prints: stored.Prints}
	r := d.record(&stored)
	if d.failure != nil {
		return Record{}, fmt.Errorf("parsing the record of the %s of %s: %w", stored.Domain, stored.Cluster, d.failure)
	}
	return r.excerpt(), nil // whoever may write ConfigMaps may have written it
}

// decoder looks tables up, and remembers the first thing that was wrong.
type decoder struct {
	words   *Words
	prints  []string
	stores  []trust.Stores
	failure error
	// unfolded counts what stores were looked up, and what is in them.
	unfolded int
}

func (d *decoder) fail(format string, args ...any) {
	if d.failure == nil {
		d.failure = fmt.Errorf(format, args...)
	}
}

func (d *decoder) record(w *wireRecord) Record {
	for _, s := range w.Stores {
		d.stores = append(d.stores, trust.Stores{
			Trust:    prints[trust.AnchorID](d, s.Trust),
			Identity: trust.Identity{Signer: trust.KeyID(d.print(s.Signer)), Cross: prints[trust.KeyID](d, s.Cross)},
		})
	}
	r := Record{
		Words: d.words, Cluster: w.Cluster, Domain: w.Domain, StartedAt: w.StartedAt, UserProvided: w.UserProvided, Refused: w.Refused,
		Anchors: w.Names, Members: w.Facts, Versions: w.Versions,
		RestartSeconds: d.seconds(w.RestartSeconds), ReloadSeconds: d.seconds(w.ReloadSeconds),
		Snapshot: trust.Snapshot{
			Now: w.At, Issuing: trust.AnchorID(d.print(w.Issuing)),
			Application: trust.Application{Anchors: prints[trust.AnchorID](d, w.Application.Anchors), Since: w.Application.Since},
			Policy:      d.policy(w.Policy),
		},
	}
	for i := range w.Anchors {
		r.Snapshot.Anchors = append(r.Snapshot.Anchors, d.anchor(&w.Anchors[i]))
	}
	for i := range w.Members {
		r.Snapshot.Members = append(r.Snapshot.Members, d.member(&w.Members[i]))
	}
	return r
}

func (d *decoder) anchor(w *wireAnchor) trust.Anchor {
	a := trust.Anchor{
		ID: trust.AnchorID(d.print(w.ID)), Name: w.Name, Key: trust.KeyID(d.print(w.Key)), NotAfter: w.NotAfter,
		NoCross: w.NoCross, Stored: w.Stored, Compromised: w.Compromised, Kept: w.Kept, Removed: w.Removed, Signs: w.Signs,
	}
	if a.ID == "" {
		d.fail("an anchor has no fingerprint")
	}
	states := []trust.State{trust.Absent, trust.Untrusted, trust.TrustedUnused, trust.InUseAny, trust.InUseAll, trust.PhaseOut}
	if !slices.Contains(states, a.Stored) {
		d.fail("anchor %s has the unknown state %q", a.ID, a.Stored)
	}
	for _, c := range w.Cross {
		a.Cross = append(a.Cross, trust.Cross{Issuer: trust.KeyID(d.print(c.Issuer)), NotAfter: c.NotAfter, Distrusted: c.Distrusted})
	}
	return a
}

func (d *decoder) policy(w wirePolicy) trust.Policy {
	return trust.Policy{
		Paused: w.Paused, Reload: trust.Reload(d.value(reloadWords(), w.Reload)), ReloadRefused: w.ReloadRefused,
		Lead: d.duration(w.Lead), Retirement: trust.Retirement(d.value(retirementWords(), w.Retirement)), RestartMargin: d.duration(w.RestartMargin),
		Issuance: trust.Issuance(d.value(issuanceWords(), w.Issuance)),
	}
}

func (d *decoder) member(w *wireMember) trust.Member {
	main, late := d.store(w.Main), d.store(w.Late)
	m := trust.Member{
		ID: w.ID, Kind: trust.MemberKind(d.value(kindWords(), w.Kind)), Restarts: w.Restarts, Leaving: w.Leaving, SecretLost: w.SecretLost,
		Published: trust.Publication{Main: main.Trust, Late: late.Trust, Identity: main.Identity}, LastsUntil: w.LastsUntil,
	}
	for i := range w.Roles {
		m.Roles = append(m.Roles, d.role(&w.Roles[i]))
	}
	if (m.Kind == trust.Operator || m.Kind == trust.Holder) && len(m.Roles) == 0 {
		d.fail("member %s is a client without a role", m.ID)
	}
	return m
}

func (d *decoder) role(w *wireRole) trust.Role {
	return trust.Role{
		Name: w.Name, Plane: d.plane(w.Plane), Verifies: w.Verifies, Presents: w.Presents,
		Evidence: trust.Evidence{
			Process: trust.Process(d.value(processWords(), w.Process)),
			Loaded:  d.store(w.Loaded), Mounted: d.list(w.Mounted), Loading: d.list(w.Loading), Persisted: d.list(w.Persisted), Static: d.store(w.Static),
			HeldUntil: w.HeldUntil, Since: w.Since,
		},
	}
}

// plane is the plane of that name; the first where none is named.
func (d *decoder) plane(name string) trust.Plane {
	for i, known := range d.words.Planes {
		if known.Name == name || name == "" && i == 0 {
			return known.Plane
		}
	}
	if name != "" {
		d.fail("nobody knows the plane %q", name)
	}
	return trust.Plane{}
}

func (d *decoder) list(places []ref) []trust.Stores {
	out := make([]trust.Stores, 0, len(places))
	for _, at := range places {
		out = append(out, d.store(at))
	}
	return out
}

func (d *decoder) store(at ref) trust.Stores {
	switch {
	case at == 0:
		return trust.Stores{}
	case at < 0 || int(at) > len(d.stores):
		d.fail("there are no stores %d", at)
		return trust.Stores{}
	}
	found := d.stores[at-1]
	d.unfolded += 1 + len(found.Trust) + len(found.Identity.Cross)
	if d.unfolded > maxUnfolded {
		d.fail("it names more than %d anchors", maxUnfolded)
		return trust.Stores{}
	}
	return clone(found)
}

// clone lets nobody who changes one role change another.
func clone(s trust.Stores) trust.Stores {
	s.Trust, s.Identity.Cross = slices.Clone(s.Trust), slices.Clone(s.Identity.Cross)
	return s
}

func (d *decoder) print(at ref) string {
	switch {
	case at == 0:
		return ""
	case at < 0 || int(at) > len(d.prints):
		d.fail("there is no fingerprint %d", at)
		return ""
	default:
		return d.prints[at-1]
	}
}

func prints[T ~string](d *decoder, places []ref) []T {
	out := make([]T, 0, len(places))
	for _, at := range places {
		out = append(out, T(d.print(at)))
	}
	return out
}

// value is what a word counts as.
func (d *decoder) value(words []string, word string) uint8 {
	at := uint8(0)
	for _, known := range words {
		if known == word {
			return at
		}
		at++
	}
	d.fail("%q is none of %q", word, words)
	return 0
}

func (d *decoder) seconds(number json.Number) float64 {
	if number == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		d.fail("reading seconds: %w", err)
	}
	return seconds
}

func (d *decoder) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		d.fail("reading a duration: %w", err)
	}
	return length
}
