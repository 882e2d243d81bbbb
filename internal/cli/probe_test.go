package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/probe"
)

func TestClusterName(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		want  string
		fails bool
	}{
		"kafka/my-cluster":  {want: "my-cluster"},
		"kafkas/my-cluster": {want: "my-cluster"},
		"my-cluster":        {want: "my-cluster"},
		"kafka/":            {fails: true},
		"pod/my-cluster":    {fails: true},
	}
	for resource, c := range cases {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			got, err := clusterName(resource)
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("name %q, error %v; want %q, error %t", got, err, c.want, c.fails)
			}
		})
	}
}

func TestOutputFollowsTheOptionAndThenTheTerminal(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		output string
		table  bool
		fails  bool
	}{
		"a table was asked for":              {output: "table", table: true},
		"json was asked for":                 {output: "json"},
		"nothing was, and nobody is looking": {},
		"something else was":                 {output: "yaml", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &probeOptions{output: c.output}
			table, err := o.wantsTable(&bytes.Buffer{})
			if table != c.table || (err != nil) != c.fails {
				t.Errorf("table %t, error %v; want %t, error %t", table, err, c.table, c.fails)
			}
		})
	}
}

func TestTheLiveTableDrawsOverItself(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show := redraw(&out)
	first := probe.Snapshot{Clients: []probe.ClientState{{Kind: "pinned"}}}
	first.At = first.StartedAt.Add(time.Second)
	second := first
	second.At = second.At.Add(time.Second)
	show(first)
	show(second)
	// Three lines: time, head, one client.
	before, again, found := strings.Cut(out.String(), "\x1b[3A\x1b[J")
	if !found || !strings.HasPrefix(before, "1s\n") || !strings.HasPrefix(again, "2s\n") {
		t.Errorf("drawn:\n%q", out.String())
	}
}
