package rotation_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// crowded is a record in the middle of everything: kubelets lag, settings are
// persisted, a node does not answer.
func crowded(nodes int) rotation.Record {
	r := rotationtest.AtRest(nodes, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now()))
	r.UserProvided, r.StartedAt = true, rotationtest.Now().Add(-time.Minute)
	r.Snapshot.Policy = trust.Policy{
		Reload: trust.RestartOnly, ReloadRefused: "Kafka 4.2.1 does not prove it", Lead: time.Minute,
		Retirement: trust.RetireExpired, RestartMargin: 36 * time.Hour, Issuance: trust.Offered,
	}
	r.Snapshot.Anchors[1].Compromised, r.Snapshot.Anchors[1].NoCross = true, "because"
	r.Snapshot.Anchors[1].Cross[0].Distrusted = true
	both := trust.Stores{
		Trust:    []trust.AnchorID{rotationtest.AnchorA, rotationtest.AnchorB},
		Identity: trust.Identity{Signer: rotationtest.KeyB, Cross: []trust.KeyID{rotationtest.KeyA}},
	}
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		if m.Kind != trust.Node {
			continue
		}
		m.Published = trust.Publication{Main: both.Trust, Late: []trust.AnchorID{rotationtest.AnchorB}, Identity: both.Identity}
		for j := range m.Roles {
			held := &m.Roles[j].Evidence
			held.Mounted = []trust.Stores{both, {Trust: both.Trust}}
			held.Persisted = []trust.Stores{both}
			held.Static = trust.Stores{Trust: []trust.AnchorID{rotationtest.AnchorA}}
			held.Since = rotationtest.Now().Add(time.Duration(i) * time.Millisecond)
		}
		r.Versions["Secret "+string(m.ID)] = "1234567"
		facts := r.Members[m.ID]
		facts.RestartDue, facts.Trouble = rotationtest.Now().Add(200*rotationtest.Day), "broker refused the key store"
		r.Members[m.ID] = facts
	}
	return r
}

func TestRecordSurvivesTheConfigMap(t *testing.T) {
	t.Parallel()
	tests := map[string]rotation.Record{
		"at rest":                       rotationtest.AtRest(3),
		"in the middle of everything":   crowded(3),
		"the clients CA with its users": rotationtest.AtRest(2, rotationtest.Clients),
		"a cluster with nothing yet":    rotationtest.AtRest(3, rotationtest.BrandNew),
		"an authority that is refused":  rotationtest.AtRest(2, refused),
		"nothing at all":                {Words: authorities.Words()},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := encode(t, want)
			got, err := authorities.Words().Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := encode(t, got); again != text {
				t.Errorf("encoded again it reads otherwise:\n%s\n%s", text, again)
			}
		})
	}
}

func encode(t *testing.T, r rotation.Record) string {
	t.Helper()
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRecordLooksTheSameToEveryRelease(t *testing.T) {
	t.Parallel()
	golden(t, filepath.Join("testdata", "record.json"), encode(t, crowded(3))+"\n")
}

func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ nodes, limit int }{
		"a cluster of three nodes stays below 20 KiB":     {3, 20 << 10},
		"two records of 300 nodes fit into one ConfigMap": {300, 500 << 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if size := len(encode(t, crowded(test.nodes))); size > test.limit {
				t.Errorf("%d bytes, want at most %d", size, test.limit)
			}
		})
	}
}

func TestWhatDecidesNothingIsLeftOutOfALongRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes                  int
		versions, facts, names bool
	}{
		"of a usual cluster":            {100, true, true, true},
		"of one that is large":          {395, false, true, true},
		"of one that is larger":         {420, false, false, true},
		"with names that nobody writes": {3, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := crowded(c.nodes)
			if !c.names {
				for i := range 600 {
					whole.Anchors[trust.AnchorID(fmt.Sprintf("%064x", i))] = rotation.AnchorName{CommonName: strings.Repeat("x", 4<<10)}
				}
			}
			text := encode(t, whole)
			got, err := authorities.Words().Parse(text)
			if err != nil || len(text) > rotation.MaxEncoded {
				t.Fatalf("%d bytes, %v; want at most %d", len(text), err, rotation.MaxEncoded)
			}
			if len(got.Snapshot.Members) != len(whole.Snapshot.Members) || len(got.Snapshot.Anchors) != len(whole.Snapshot.Anchors) {
				t.Error("something that decides is left out")
			}
			if versions, facts, names := len(got.Versions) > 0, len(got.Members) > 0, len(got.Anchors) > 0; versions != c.versions || facts != c.facts || names != c.names {
				t.Errorf("%d bytes with versions %t, facts %t, names %t", len(text), versions, facts, names)
			}
		})
	}
}

func TestARecordThatIsTooLongWithoutAnyFactIsAnError(t *testing.T) {
	t.Parallel()
	_, err := crowded(1000).Encode()
	if long, is := errors.AsType[*rotation.TooLongError](err); !is || long.Bytes <= rotation.MaxEncoded || long.Domain != string(authorities.Cluster) {
		t.Errorf("error %v, want a TooLongError", err)
	}
}

func TestTextsOfARecordAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	r := rotationtest.AtRest(1)
	r.Refused, r.Snapshot.Policy.ReloadRefused, r.Snapshot.Anchors[0].NoCross = long, long, long
	r.Anchors[rotationtest.AnchorA] = rotation.AnchorName{CommonName: long, Entry: long, CannotVouch: long}
	r.Members["my-dual-0"] = rotation.MemberFacts{Trouble: long}
	if text := encode(t, r); len(text) > 20<<10 {
		t.Errorf("%d bytes, want that each text is cut", len(text))
	}
	if r.Refused != long || r.Members["my-dual-0"].Trouble != long || r.Snapshot.Anchors[0].NoCross != long {
		t.Error("the record that was given has changed")
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change rotationtest.Change
		want   bool
	}{
		"nothing changed":                  {func(*rotation.Record) {}, true},
		"time passed":                      {func(r *rotation.Record) { r.Snapshot.Now = rotationtest.Now().Add(time.Hour) }, true},
		"somebody said the same once more": {func(r *rotation.Record) { r.Snapshot.Members[0].Roles[0].Evidence.Since = rotationtest.Now() }, true},
		"a mean moved by a hundredth":      {func(r *rotation.Record) { r.RestartSeconds += 0.01 }, true},
		"a state moved":                    {func(r *rotation.Record) { r.Snapshot.Anchors[0].Stored = trust.PhaseOut }, false},
		"a node has loaded something else": {func(r *rotation.Record) { r.Snapshot.Members[0].Roles[0].Evidence.Loaded.Trust = nil }, false},
		"a node presents another leaf":     {func(r *rotation.Record) { r.Members["my-dual-0"] = rotation.MemberFacts{Leaf: "ff"} }, false},
		"an object was written":            {func(r *rotation.Record) { r.Versions["Secret my-cluster-ca"] = "42" }, false},
		"restarts have become much slower": {func(r *rotation.Record) { r.RestartSeconds += 10 }, false},
		"what is new cannot be encoded":    {func(r *rotation.Record) { r.RestartSeconds = math.NaN() }, false},
		"a plane is one that nobody knows": {func(r *rotation.Record) { r.Snapshot.Members[0].Roles[0].Plane.Name = "another" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rotationtest.AtRest(3).Same(rotationtest.AtRest(3, test.change)); got != test.want {
				t.Errorf("same: %t, want %t", got, test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"what is no JSON":                 `{`,
		"another format":                  `{"format":2}`,
		"no format":                       `{}`,
		"a fingerprint that is not there": `{"format":1,"issuing":1}`,
		"a negative place":                `{"format":1,"prints":["a"],"issuing":-1}`,
		"stores that are not there":       `{"format":1,"members":[{"id":"a","main":1}]}`,
		"an anchor without a fingerprint": `{"format":1,"anchors":[{"id":0}]}`,
		"a state that nobody knows":       `{"format":1,"prints":["a"],"anchors":[{"id":1,"stored":"TRUSTED"}]}`,
		"a plane that nobody knows":       `{"format":1,"members":[{"id":"a","roles":[{"plane":"x"}]}]}`,
		"an operator that is not there":   `{"format":1,"members":[{"id":"a","kind":"operator"}]}`,
		"a duration that is none":         `{"format":1,"policy":{"lead":"x"}}`,
		"seconds beyond all measure":      `{"format":1,"restartSeconds":1e999}`,
		"a time that is none":             `{"format":1,"at":"yesterday"}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := authorities.Words().Parse(text); err == nil {
				t.Errorf("accepted %s", text)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range []rotation.Record{rotationtest.AtRest(1), crowded(2), rotationtest.AtRest(1, rotationtest.Clients, rotationtest.Replaced), {Words: authorities.Words()}} {
		text, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := authorities.Words().Parse(text)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		r2, err := authorities.Words().Parse(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, again)
		}
		if !r.Same(r2) {
			t.Fatalf("it was read as something else:\n%s", again)
		}
		// Whatever somebody wrote into the ConfigMap, a person gets an answer.
		plan := trust.Decide(r.Snapshot)
		if words := string(authorities.Words().PhaseOf(r.Snapshot, plan)) + authorities.Words().Message(r.Snapshot, plan, r.Subject()); strings.TrimSpace(words) == "" {
			t.Fatal("no words")
		}
	})
}

func follow(r, before rotation.Record) rotation.Record { return r.Following(before, r.Plan()) }

func TestRotationBeganWhenItLeftRest(t *testing.T) {
	t.Parallel()
	begun := follow(rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed), rotationtest.AtRest(1))
	if !begun.StartedAt.Equal(rotationtest.Now()) {
		t.Fatalf("it began at %s, want %s", begun.StartedAt, rotationtest.Now())
	}
	later := follow(rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed, func(r *rotation.Record) {
		r.Snapshot.Now = rotationtest.Now().Add(time.Minute)
	}), begun)
	if !later.StartedAt.Equal(begun.StartedAt) {
		t.Errorf("a minute later it began at %s", later.StartedAt)
	}
	if !later.Same(begun) {
		t.Error("that a minute has passed is written down")
	}
	if over := follow(rotationtest.AtRest(1), later); !over.StartedAt.IsZero() {
		t.Errorf("it is over and began at %s", over.StartedAt)
	}
}

func TestAMemberIsAsItIsSinceItWasFirstRecordedSo(t *testing.T) {
	t.Parallel()
	const member = "my-dual-0"
	now, before := rotationtest.Now(), rotationtest.Now().Add(-time.Hour)
	made := map[trust.MemberID]time.Time{member: before.Add(-time.Minute)}
	since := func(since time.Time) rotationtest.Change {
		return everyRole(member, func(e *trust.Evidence) { e.Since = since })
	}
	tests := map[string]struct {
		// recorded and observed change a cluster at rest.
		recorded, observed []rotationtest.Change
		want               time.Time
	}{
		"it is as it was":    {[]rotationtest.Change{since(before)}, nil, before},
		"it is silent still": {[]rotationtest.Change{rotationtest.Silent(member, before)}, []rotationtest.Change{rotationtest.Silent(member, now)}, before},
		"it was silent":      {[]rotationtest.Change{rotationtest.Silent(member, before)}, nil, now},
		"it runs on something else": {[]rotationtest.Change{since(before)}, []rotationtest.Change{everyRole(member, func(e *trust.Evidence) {
			e.Loaded.Trust = []trust.AnchorID{rotationtest.AnchorA, rotationtest.AnchorB}
		})}, now},
		"it has not mounted what it had mounted": {[]rotationtest.Change{since(before)}, []rotationtest.Change{everyRole(member, func(e *trust.Evidence) {
			e.Mounted = []trust.Stores{{Trust: []trust.AnchorID{rotationtest.AnchorB}}}
		})}, now},
		"something else is published to it": {[]rotationtest.Change{since(before)}, []rotationtest.Change{func(r *rotation.Record) {
			r.Snapshot.Members[0].Published.Identity.Signer = rotationtest.KeyB
		}}, now},
		"its pod was made since":                 {[]rotationtest.Change{since(before.Add(-time.Hour))}, nil, now},
		"the record is from a time to come":      {[]rotationtest.Change{since(now.Add(time.Hour))}, nil, now},
		"the record does not say since when":     {[]rotationtest.Change{since(time.Time{})}, nil, now},
		"the record is that of another member":   {[]rotationtest.Change{since(before), func(r *rotation.Record) { r.Snapshot.Members[0].ID = "my-dual-7" }}, nil, now},
		"the record is that of another listener": {[]rotationtest.Change{since(before), func(r *rotation.Record) { r.Snapshot.Members[0].Roles[0].Name = "gone" }}, nil, now},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorded := rotationtest.AtRest(1, test.recorded...)
			observed := rotationtest.AtRest(1, append([]rotationtest.Change{since(now)}, test.observed...)...)

			got := recorded.Lasting(observed.Snapshot, made)

			if first := got.Members[0].Roles[0].Evidence.Since; !first.Equal(test.want) {
				t.Errorf("since %s, want %s", first, test.want)
			}
			if given := observed.Snapshot.Members[0].Roles[0].Evidence.Since; !given.Equal(now) {
				t.Errorf("what was observed has become since %s", given)
			}
		})
	}
}

// Nothing runs beside it: what is counted is what the whole process allocates.
func TestARecordThatNobodyCanHaveWrittenTakesNoRoom(t *testing.T) {
	ones := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	many := func(what string) string {
		return strings.TrimSuffix(strings.Repeat(what+",", rotation.MaxEncoded/(len(what)+1)-100), ",")
	}
	const begin = `{"format":1,"cluster":"my","domain":"cluster-ca","prints":["a"],`
	for name, text := range map[string]string{
		"one store that is named again and again": begin + `"stores":[{"trust":[` + ones(10_000) + `]}],"members":[{"id":"x","roles":[{"mounted":[` + ones(10_000) + `]}]}]}`,
		"empty members":           begin + `"members":[` + many(`{}`) + `]}`,
		"a text that is too long": begin + `"refused":"` + strings.Repeat("x", 8*rotation.MaxEncoded) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)

			_, err := authorities.Words().Parse(text)

			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 32<<20 {
				t.Errorf("reading %d bytes took %d MiB, %v", len(text), used>>20, err)
			}
		})
	}
}

func TestATimeThatCannotBeWrittenIsNone(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{"after all years": "9999-12-31T23:59:59-23:59", "before all years": "0000-01-01T00:00:00+23:59"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, when)
			if err != nil {
				t.Fatal(err)
			}
			r := crowded(3)
			r.StartedAt, r.Snapshot.Now = at, at
			r.Members["my-dual-0"] = rotation.MemberFacts{StartedAt: at, LeafNotAfter: at}
			everyRole("my-dual-0", func(e *trust.Evidence) { e.Since, e.HeldUntil = at, at })(&r)

			if text, err := r.Encode(); err != nil || strings.Contains(text, "9999") {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// everyRole changes what all roles of a member have proven.
func everyRole(member trust.MemberID, change func(*trust.Evidence)) rotationtest.Change {
	return func(r *rotation.Record) {
		for i := range r.Snapshot.Members {
			for j := range r.Snapshot.Members[i].Roles {
				if r.Snapshot.Members[i].ID == member {
					change(&r.Snapshot.Members[i].Roles[j].Evidence)
				}
			}
		}
	}
}
