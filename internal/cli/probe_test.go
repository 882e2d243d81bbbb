package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report/picture"
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
		"kafka/my/cluster":  {fails: true},
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
	for asked, want := range map[string]string{"table": "table", "json": "json", "yaml": "yaml", "": "json"} {
		t.Run("-o "+asked+" where nobody looks", func(t *testing.T) {
			t.Parallel()
			o := &probeOptions{output: asked}
			if got := o.format(&bytes.Buffer{}); got != want {
				t.Errorf("output %q, want %q", got, want)
			}
		})
	}
}

func TestExitCodeOfAProbeTellsHarmFromIgnorance(t *testing.T) {
	t.Parallel()
	good := func() probe.Result {
		client := probe.ClientState{Kind: "pinned"}
		client.Records.Acknowledged = 100
		return probe.Result{Complete: true, Snapshot: probe.Snapshot{Clients: []probe.ClientState{client}}}
	}
	tests := map[string]struct {
		change func(*probe.Result)
		want   int
	}{
		"nothing was lost":      {func(*probe.Result) {}, 0},
		"a record was lost":     {func(r *probe.Result) { r.Clients[0].Records.Unread = 1 }, 3},
		"a record was given up": {func(r *probe.Result) { r.Clients[0].Records.Failed = 1 }, 3},
		"a client was refused":  {func(r *probe.Result) { r.Clients[0].TLSFailures = map[verdict.Reason]uint64{"expired": 1} }, 3},
		"nothing came through":  {func(r *probe.Result) { r.Clients[0].Records.Acknowledged = 0 }, 3},
		"a topic could not be read to its end": {func(r *probe.Result) {
			r.Complete = false
			r.Clients[0].Records.Unread = 7
		}, 1},
		"a topic could not be read, and a client was refused": {func(r *probe.Result) {
			r.Complete = false
			r.Clients[0].TLSFailures = map[verdict.Reason]uint64{"expired": 1}
		}, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := good()
			test.change(&result)
			got := 0
			if err := judged(result); err != nil {
				got = exitCode(err)
			}
			if got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}

func TestHarmIsToldEvenIfTheReportCannotBeWritten(t *testing.T) {
	t.Parallel()
	if code := exitCode(errors.Join(fs.ErrPermission, errProbeHarmed)); code != exitHarmed {
		t.Errorf("exit code %d, want %d", code, exitHarmed)
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

func TestAReportHasThePictureOfTheTimeline(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*probeOptions) error{
		"kafka/my-cluster": func(o *probeOptions) error { return o.write("my-cluster", probe.Result{}) },
		"etcd/my-cluster": func(o *probeOptions) error {
			return o.writeEtcd(etcdCluster{name: "my-cluster"}, time.Time{}, etcdProbeReport{}, etcdload.Result{}, []observe.Log{{Node: "my-cluster-0"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &probeOptions{report: t.TempDir(), draw: picture.Render}
			if err := write(o); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"report.json", "timeline.svg"} {
				if _, err := os.Stat(filepath.Join(o.report, file)); err != nil {
					t.Error(err)
				}
			}
			drawn, _ := os.ReadFile(filepath.Join(o.report, "timeline.svg"))
			if !strings.Contains(string(drawn), name) {
				t.Errorf("the picture does not name %s", name)
			}
		})
	}
}
