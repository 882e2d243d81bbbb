package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"

	"github.com/keyturn/keyturn/bed/internal/state"
	"github.com/keyturn/keyturn/bed/internal/versions"
)

func TestNestedModulesAskForThePinnedVersions(t *testing.T) {
	t.Parallel()
	for part, pins := range map[string]map[string]string{
		"kubernetes": {
			"k8s.io/kubernetes":         versions.Kubernetes,
			"k8s.io/api":                "v0" + strings.TrimPrefix(versions.Kubernetes, "v1"),
			"go.etcd.io/etcd/server/v3": versions.KubernetesEtcd,
		},
		"containerd":  {"github.com/containerd/containerd/v2": versions.Containerd},
		"certmanager": {"github.com/cert-manager/cert-manager": versions.CertManager},
		"coredns":     {"github.com/coredns/coredns": versions.CoreDNS},
		"etcd36":      {"go.etcd.io/etcd/server/v3": versions.EtcdNew, "go.etcd.io/etcd/etcdctl/v3": versions.EtcdNew},
		"etcd35":      {"go.etcd.io/etcd/server/v3": versions.EtcdOld, "go.etcd.io/etcd/etcdutl/v3": versions.EtcdOld},
	} {
		path := filepath.Join("..", "..", "parts", part, "go.mod")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(path, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, require := range file.Require {
			if _, wanted := pins[require.Mod.Path]; wanted {
				got[require.Mod.Path] = require.Mod.Version
			}
		}
		if diff := cmp.Diff(pins, got); diff != "" {
			t.Errorf("%s is not what the table of versions says; run go generate ./... in the bed's module\n%s", path, diff)
		}
	}
}

func TestAStepIsDoneOnce(t *testing.T) {
	t.Parallel()
	b, calls := builder(t), 0
	step := Step{Name: "thing", Inputs: []string{"1"}, Make: func(_ context.Context, dir string) error {
		calls++
		return os.WriteFile(filepath.Join(dir, "result"), nil, 0o644)
	}}
	first, err := b.Do(t.Context(), step)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := b.Do(t.Context(), step); err != nil || second != first || calls != 1 {
		t.Errorf("the second time: %s, %v after %d calls; want %s after one", second, err, calls, first)
	}
	step.Inputs = []string{"2"}
	if third, err := b.Do(t.Context(), step); err != nil || third == first || calls != 2 {
		t.Errorf("with another input: %s, %v after %d calls; want another folder after two", third, err, calls)
	}
}

func TestABrokenStepLeavesNoResult(t *testing.T) {
	t.Parallel()
	b, broken := builder(t), errors.New("broken")
	step := Step{Name: "thing", Make: func(_ context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			return err
		}
		return broken
	}}
	if _, err := b.Do(t.Context(), step); !errors.Is(err, broken) {
		t.Fatalf("Do() = %v, want the step's error", err)
	}
	step.Make = func(_ context.Context, dir string) error {
		entries, err := os.ReadDir(dir)
		if len(entries) > 0 {
			t.Errorf("the step begins with %v of the broken one", entries)
		}
		return err
	}
	if _, err := b.Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	folder := state.Folder(t.TempDir())
	nothing := func(context.Context, string) error { return nil }
	result := func(b Builder, version string) string {
		dir, err := b.Do(t.Context(), Step{Name: "thing", Inputs: []string{version}, Make: nothing})
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old := result(New(folder, "", io.Discard), "1")
	today := New(folder, "", io.Discard)
	kept := result(today, "2")
	if err := today.Prune(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what is needed is gone: %v", err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old result is still there")
	}
}

func TestKeysTellInputsApart(t *testing.T) {
	t.Parallel()
	if key([]string{"ab", "c"}) == key([]string{"a", "bc"}) {
		t.Error("two lists with the same letters have the same key")
	}
}

func TestKubernetesSaysItsVersion(t *testing.T) {
	t.Parallel()
	flags := kubernetesVersionFlags("v1.36.3")
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3", "-X k8s.io/client-go/pkg/version.gitMinor=36",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("the flags %q do not hold %s", flags, want)
		}
	}
}

func TestLibrariesOfLdd(t *testing.T) {
	t.Parallel()
	said := strings.Join([]string{
		"/image/bin/java:",
		"\tlinux-vdso.so.1 (0x00007ffd)",
		"\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)",
		"\tlibjli.so => /image/lib/libjli.so (0x00007f)",
		"\tlibgone.so => not found",
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)",
		"/image/lib/libnet.so:",
		"\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)",
	}, "\n")
	want := []string{"/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"}
	if diff := cmp.Diff(want, libraries(said, "/image")); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	absent := Need{What: "the program x", Package: "x", present: func(context.Context) bool { return false }}
	present := Need{What: "the program y", Package: "y", present: func(context.Context) bool { return true }}
	got := missing(t.Context(), []Need{present, absent})
	if len(got) != 1 || got[0].What != absent.What {
		t.Errorf("missing() = %v, want %s alone", got, absent.What)
	}
}

func TestFindSourceFromTheRepositoryAndFromWithin(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	bed := filepath.Join(repository, "bed")
	deep := filepath.Join(bed, "internal", "build")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bed, "go.mod"), []byte("module "+Module+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{repository, bed, deep} {
		if got, err := FindSource(from); err != nil || got != bed {
			t.Errorf("FindSource(%s) = %s, %v, want %s", from, got, err, bed)
		}
	}
	if got, err := FindSource(t.TempDir()); err == nil {
		t.Errorf("FindSource() of an empty folder = %s, want an error", got)
	}
}

func builder(t *testing.T) Builder {
	t.Helper()
	return New(state.Folder(t.TempDir()), "", io.Discard)
}

func TestWhatAProgramPrintsIsShownWhenItFails(t *testing.T) {
	t.Parallel()
	b := builder(t)
	err := b.run(t.Context(), t.TempDir(), nil, "sh", "-c", "echo to the output; echo to the errors >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "to the output") || !strings.Contains(err.Error(), "to the errors") {
		t.Errorf("the error is %v", err)
	}
}

func TestProgressTellsTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	b := New(state.Folder(t.TempDir()), "", &told)
	if err := b.Expect(); err != nil {
		t.Fatal(err)
	}
	var all time.Duration
	for _, each := range usual() {
		all += each
	}
	whole := b.course.forecast()
	if want := fmt.Sprintf("; about %.0f min until all is built", math.Ceil(all.Minutes())); whole != want {
		t.Errorf("at first %q, want %q", whole, want)
	}
	b.course.finish("kubernetes", 2*usual()["kubernetes"])
	left := all - usual()["kubernetes"]
	if got, want := b.course.forecast(), fmt.Sprintf("; about %.0f min until all is built", math.Ceil(2*left.Minutes())); got != want {
		t.Errorf("on a machine of half the pace %q, want %q", got, want)
	}
	for name := range usual() {
		if _, err := b.Do(t.Context(), Step{Name: name, Make: func(context.Context, string) error { return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.course.forecast(); got != "" {
		t.Errorf("at the end %q", got)
	}
	if again := New(b.Folder, "", io.Discard); again.Expect() != nil || len(again.course.left) > 0 {
		t.Errorf("what is built is expected again: %v", again.course.left)
	}
	if !strings.Contains(told.String(), "building; about ") {
		t.Errorf("progress was %s", told.String())
	}
}
