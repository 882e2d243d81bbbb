package rotation_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
			encoded := encode(t, want)
			got, err := authorities.Words().Parse(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := encode(t, got); !bytes.Equal(again, encoded) {
				t.Errorf("encoded again it reads otherwise:\n%s\n%s", expand(t, encoded), expand(t, again))
			}
		})
	}
}

func encode(t *testing.T, r rotation.Record) []byte {
	t.Helper()
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// expand is the JSON of a record.
func expand(t *testing.T, encoded []byte) string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compress encodes JSON as if it were that of a record.
func compress(tb testing.TB, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, err := io.WriteString(compressed, text)
	if err := errors.Join(err, compressed.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestRecordLooksTheSameToEveryRelease(t *testing.T) {
	t.Parallel()
	golden(t, filepath.Join("testdata", "record.json"), expand(t, encode(t, crowded(3)))+"\n")
}

// Otherwise each reconcile would write what says the same.
func TestEqualRecordsHaveEqualEncodings(t *testing.T) {
	t.Parallel()
	elsewhere := func(r *rotation.Record) {
		r.Snapshot.Now = r.Snapshot.Now.In(time.FixedZone("elsewhere", 3600))
		r.Snapshot.Anchors[0].Cross = []trust.Cross{}
		everyRole("my-dual-0", func(e *trust.Evidence) {
			e.Mounted, e.Loaded.Identity.Cross = []trust.Stores{}, []trust.KeyID{}
			e.Static = trust.Stores{Trust: []trust.AnchorID{}, Identity: trust.Identity{Cross: []trust.KeyID{}}}
		})(r)
	}
	one, two := rotationtest.AtRest(20), rotationtest.AtRest(20, elsewhere)
	if !bytes.Equal(encode(t, one), encode(t, two)) || !one.Same(two) {
		t.Error("two records that say the same are encoded in two ways")
	}
	compressed, err := gzip.NewReader(bytes.NewReader(encode(t, one)))
	if err != nil || !compressed.ModTime.IsZero() {
		t.Errorf("an encoding says when it was made: error %v", err)
	}
}

func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ nodes, limit int }{
		"a cluster of three nodes stays below 4 KiB":      {3, 4 << 10},
		"of the largest cluster two fit into a ConfigMap": {1000, rotation.MaxEncoded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encoded := encode(t, crowded(test.nodes))
			if len(encoded) > test.limit {
				t.Errorf("%d bytes, want at most %d", len(encoded), test.limit)
			}
			if got, err := authorities.Words().Parse(encoded); err != nil || len(got.Members) != test.nodes {
				t.Errorf("the facts of %d nodes are read, with error %v", len(got.Members), err)
			}
		})
	}
}

func TestARecordThatIsTooLongIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change rotationtest.Change
		want   string
	}{
		"texts": {func(r *rotation.Record) { r.Cluster = strings.Repeat("x", 9<<20) }, " bytes, and there is room for 8388608"},
		"objects": {func(r *rotation.Record) {
			r.Snapshot.Members[0].Roles[0].Evidence.Mounted = make([]trust.Stores, 70_000)
		}, " objects, and there is room for 61440"},
		"values": {func(r *rotation.Record) {
			r.Snapshot.Application.Anchors = make([]trust.AnchorID, 300_000)
		}, " values, and there is room for 163840"},
		"nulls": {func(r *rotation.Record) { r.Cluster = strings.Repeat("null", 20_000) }, " nulls, and there is room for 4096"},
		"what cannot be compressed": {func(r *rotation.Record) {
			for i := range 20_000 {
				r.Snapshot.Application.Anchors = append(r.Snapshot.Application.Anchors, trust.AnchorID(fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i)))))
			}
		}, " compressed bytes, and there is room for 491520"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := rotationtest.AtRest(1, c.change).Encode()
			if _, is := errors.AsType[*rotation.TooLongError](err); !is || !strings.HasPrefix(err.Error(), "the record of the trust in the cluster-ca takes ") || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("error %v, want a TooLongError that ends with %q", err, c.want)
			}
		})
	}
}

func TestTextsOfARecordAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	r := rotationtest.AtRest(1)
	r.Refused, r.Snapshot.Policy.ReloadRefused, r.Snapshot.Anchors[0].NoCross = long, long, long
	r.Anchors[rotationtest.AnchorA] = rotation.AnchorName{CommonName: long, Entry: long, CrossSignBlocked: long}
	r.Members["my-dual-0"] = rotation.MemberFacts{Trouble: long}
	if text := expand(t, encode(t, r)); len(text) > 20<<10 {
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

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"what is no JSON":                          {`{`, "unexpected end"},
		"another format":                           {`{"format":3}`, "it has format 3 and not 2: use the keyturn of the operator's version"},
		"no format":                                {`{}`, "it has format 0"},
		"an anchor without a fingerprint":          {recordOf(`"anchors":[{"id":"","name":"a1"}]`), `anchor "a1" has no fingerprint`},
		"no anchor in the place of one":            {recordOf(`"anchors":[null]`), "has no fingerprint"},
		"a state that is unknown":                  {recordOf(`"anchors":[{"id":"a","stored":"TRUSTED"}]`), `state "TRUSTED" is none of`},
		"a kind that is unknown":                   {recordOf(`"members":[{"id":"a","kind":"broker"}]`), `kind "broker" is none of`},
		"an operator without a role":               {recordOf(`"members":[{"id":"a","kind":"operator"}]`), `member "a" is a client without a role`},
		"an application without a role":            {recordOf(`"members":[{"id":"a","kind":"holder"}]`), `member "a" is a client without a role`},
		"a plane that is unknown":                  {recordOf(`"members":[{"id":"a","roles":[{"name":"r","plane":"x"}]}]`), `role "r" of member "a" is in the unknown plane "x"`},
		"no plane":                                 {recordOf(`"members":[{"id":"a","roles":[{"name":"r"}]}]`), `unknown plane ""`},
		"a process that neither runs nor does not": {recordOf(`"members":[{"id":"a","roles":[{"plane":"data","evidence":{"process":"x"}}]}]`), `process "x" is none of`},
		"an unknown way of loading":                {recordOf(`"policy":{"reload":"x"}`), `reload "x" is none of`},
		"an unknown retirement":                    {recordOf(`"policy":{"retirement":"x"}`), `retirement "x" is none of`},
		"an unknown issuance":                      {recordOf(`"policy":{"issuance":"x"}`), `issuance "x" is none of`},
		"a duration that is none":                  {recordOf(`"policy":{"leadNanoseconds":"x"}`), "leadNanoseconds"},
		"seconds beyond all measure":               {`{"format":2,"restartSeconds":1e999}`, "restartSeconds"},
		"a time that is none":                      {recordOf(`"now":"yesterday"`), "yesterday"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := authorities.Words().Parse(compress(t, test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v for %s, want %q", err, test.text, test.want)
			}
		})
	}
}

// recordOf is the JSON of a record with something in its snapshot.
func recordOf(snapshot string) string {
	return `{"format":2,"cluster":"my","domain":"cluster-ca","snapshot":{` + snapshot + `}}`
}

func TestParseRejectsWhatIsNotCompressed(t *testing.T) {
	t.Parallel()
	whole := encode(t, rotationtest.AtRest(3))
	broken := bytes.Clone(whole)
	broken[len(broken)-5] ^= 1 // its checksum
	for name, encoded := range map[string][]byte{
		"nothing":                       nil,
		"a record of an earlier format": []byte(`{"format":1,"cluster":"my","domain":"cluster-ca"}`),
		"half a record":                 whole[:len(whole)/2],
		"a record that was changed":     broken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r, err := authorities.Words().Parse(encoded); err == nil {
				t.Errorf("it is read as %+v", r)
			}
		})
	}
}

func TestAnErrorOfParseIsShort(t *testing.T) {
	t.Parallel()
	_, err := authorities.Words().Parse(compress(t, recordOf(`"policy":{"reload":"`+strings.Repeat("x", 1<<20)+`"}`)))
	if err == nil {
		t.Fatal("it is read")
	}
	if size := len(err.Error()); size > 2<<10 {
		t.Errorf("the error has %d bytes", size)
	}
}

func FuzzParse(f *testing.F) {
	for _, r := range []rotation.Record{rotationtest.AtRest(1), crowded(2), rotationtest.AtRest(1, rotationtest.Clients, rotationtest.Replaced), {Words: authorities.Words()}} {
		encoded, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		compressed, err := gzip.NewReader(bytes.NewReader(encoded))
		if err != nil {
			f.Fatal(err)
		}
		text, err := io.ReadAll(compressed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := authorities.Words().Parse(compress(t, text))
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		r2, err := authorities.Words().Parse(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, expand(t, again))
		}
		if !r.Same(r2) {
			t.Fatalf("it was read as something else:\n%s", expand(t, again))
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
func TestARecordThatNoOperatorWritesTakesLittleMemory(t *testing.T) {
	many := func(what string, bytes int) string {
		return strings.TrimSuffix(strings.Repeat(what+",", bytes/(len(what)+1)), ",")
	}
	for name, c := range map[string]struct {
		text   string
		isRead bool
	}{
		"a text that never ends":     {`{"format":2,"refused":"` + strings.Repeat("x", 64<<20) + `"}`, false},
		"empty members":              {recordOf(`"members":[` + many(`{}`, 8<<20-200) + `]`), false},
		"members that are not there": {recordOf(`"members":[` + many(`null`, 8<<20-200) + `]`), false},
		"roles that are not there":   {recordOf(`"members":[{"roles":[` + many(`null`, 8<<20-200) + `]}]`), false},
		"anchors without an end":     {recordOf(`"application":{"anchors":[` + many(`""`, 8<<20-200) + `]}`), false},
		"names of nothing":           {`{"format":2,"versions":{` + many(`"":""`, 8<<20-200) + `}}`, false},
		"as many roles as are read":  {recordOf(`"members":[{"id":"a","roles":[` + many(`{"plane":"data"}`, 60_000*17) + `]}]`), true},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := compress(t, c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)

			_, err := authorities.Words().Parse(encoded)

			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; (err == nil) != c.isRead || used > 128<<20 {
				t.Errorf("reading %d bytes took %d MiB, %v", len(c.text), used>>20, err)
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

			if text := expand(t, encode(t, r)); strings.Contains(text, "9999") || strings.Contains(text, "0000-") {
				t.Error(text)
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
