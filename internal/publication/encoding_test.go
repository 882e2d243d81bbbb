package publication_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/publication"
)

func written() publication.Publication {
	return publication.Publication{
		Revision:    7,
		Identities:  map[string]string{publication.NodeIdentity: "aa", "tls-9093": "bb"},
		Trust:       map[publication.Role][]string{publication.AgentRole: {"cc"}, replication: {"cc", "dd"}},
		Operators:   []string{"ee"},
		Proofs:      map[string]string{"0a": "0b"},
		PublishedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func TestPublicationIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	data, err := written().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := publication.ParsePublication(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written(), got); diff != "" {
		t.Errorf("publication (-written +read):\n%s", diff)
	}
}

func TestPublicationIsRefused(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"nothing": "", "no object": "[]", "no revision": "{}", "a revision nobody writes": `{"revision":-1}`, "one beyond all counting": `{"revision":9223372036854775807}`,
	} {
		if got, err := publication.ParsePublication([]byte(data)); err == nil {
			t.Errorf("%s: read as %+v, want an error", name, got)
		}
	}
}

func TestSameContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*publication.Publication)
		want   bool
	}{
		"another revision and time": {func(p *publication.Publication) { p.Revision, p.PublishedAt = 8, time.Time{} }, true},
		"another leaf":              {func(p *publication.Publication) { p.Identities[publication.NodeIdentity] = "ff" }, false},
		"another anchor":            {func(p *publication.Publication) { p.Trust[publication.AgentRole] = []string{"ff"} }, false},
		"one anchor more":           {func(p *publication.Publication) { p.Trust[publication.AgentRole] = []string{"cc", "ff"} }, false},
		"another proof":             {func(p *publication.Publication) { p.Proofs = map[string]string{"aa": "ff"} }, true},
		"another operator":          {func(p *publication.Publication) { p.Operators = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := written()
			c.change(&other)
			if got := written().SameContent(other); got != c.want {
				t.Errorf("same content = %t, want %t", got, c.want)
			}
		})
	}
}

func TestListenersEndWithTheirPort(t *testing.T) {
	t.Parallel()
	for listener, want := range map[publication.Role]int{
		"peers-9090": 9090, "two-words-9094": 9094, "internal": 0, "9092": 0, "too-large-65536": 0, "": 0, "a-": 0,
	} {
		if port, ok := listener.Port(); port != want && ok || ok != (want > 0) {
			t.Errorf("%q: port %d, %t; want %d", listener, port, ok, want)
		}
	}
}

func FuzzParsePublication(f *testing.F) {
	f.Add([]byte(`{"revision":1,"identities":{"node":"aa"},"trust":{"agent":["bb"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := publication.ParsePublication(data)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			return // a time that no calendar has
		}
		if q, err := publication.ParsePublication(again); err != nil || !p.SameContent(q) || p.Revision != q.Revision {
			t.Errorf("publication %+v is read again as %+v, %v", p, q, err)
		}
	})
}
