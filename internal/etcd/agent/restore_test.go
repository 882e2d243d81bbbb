package agent_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/snapshot/snapshottest"
)

// playedUtl restores as etcdutl does, as far as the agent sees it, and records its arguments.
const playedUtl = `dir="${2#--data-dir=}"; mkdir -p "$dir/member/wal" "$dir/member/snap" && cp "$1" "$dir/member/wal/0.wal" && cp "$1" "$dir/member/snap/db" &&
	echo "$*" > "$dir/arguments"`

// restoring is the container of a pod that restores the file of a volume, with the program.
func restoring(t *testing.T, program, start string) etcdagent.Restore {
	t.Helper()
	r := etcdagent.Restore{
		Options: etcdagent.Options{
			Command: []string{"/bin/sh", "-c", program, "etcdutl"}, PodDir: filepath.Join(t.TempDir(), "pod"), DataDir: filepath.Join(t.TempDir(), "data"),
			ResultPath: filepath.Join(t.TempDir(), "result"), Output: io.Discard, Log: slog.New(slog.DiscardHandler),
		},
		Volume: t.TempDir(), Path: "my-cluster/once.db",
	}
	mounttest.WriteVolume(t, r.PodDir, map[string][]byte{agent.AnnotationsFile: []byte(contract.StartAnnotation + "=" + start + "\n")})
	if err := os.Mkdir(filepath.Join(r.Volume, "my-cluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

// firstStart is the annotation of a member that a new cluster begins with, and joinedStart of one that has joined.
const (
	firstStart  = `"{\"isFirst\":true,\"members\":{\"my-cluster-0\":\"https://a\"}}"`
	joinedStart = `"{\"hasJoined\":true,\"members\":{\"my-cluster-0\":\"https://a\"}}"`
)

func put(t *testing.T, r etcdagent.Restore, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.Volume, r.Path), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func resultOf(t *testing.T, r etcdagent.Restore) contract.RestoreResult {
	t.Helper()
	text, err := os.ReadFile(r.ResultPath)
	if err != nil {
		t.Fatal(err)
	}
	result, err := contract.ParseRestoreResult(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// pages are the database of a member: without a hash.
func pages(t *testing.T, revision uint64) []byte {
	t.Helper()
	data := snapshottest.Data(t, revision)
	return data[:len(data)-len(data)%512]
}

// Another attempt was stopped before.
func TestAnEmptyVolumeIsRestored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data    []byte
		skipped bool
	}{
		"from a snapshot":               {snapshottest.Data(t, 70), false},
		"from the database of a member": {pages(t, 70), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := restoring(t, playedUtl, firstStart)
			put(t, r, test.data)
			if err := os.MkdirAll(filepath.Join(r.DataDir+".restoring", "member", "wal", "half"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := (contract.RestoreResult{Path: r.Path, Revision: 70}); resultOf(t, r) != want {
				t.Errorf("the result is %+v, want %+v", resultOf(t, r), want)
			}
			stored, err := os.ReadFile(filepath.Join(r.DataDir, "member", "wal", "0.wal"))
			if err != nil || !bytes.Equal(stored, test.data) {
				t.Errorf("the file is not the one that was given: %v", err)
			}
			if left := snapshottest.Alarms(t, filepath.Join(r.DataDir, "member", "snap", "db")); left > 0 {
				t.Errorf("%d alarms of the earlier cluster are left", left)
			}
			arguments, err := os.ReadFile(filepath.Join(r.DataDir, "arguments"))
			if err != nil || strings.Contains(string(arguments), "--skip-hash-check") != test.skipped {
				t.Errorf("etcdutl got %s, %v", arguments, err)
			}
			if _, err := os.Stat(filepath.Join(r.DataDir, "member", "wal", "half")); !os.IsNotExist(err) {
				t.Errorf("what the stopped attempt has left is in the data: %v", err)
			}
			if left, err := filepath.Glob(r.DataDir + "?*"); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// The volume of a member that has joined may turn out to be empty. It must not fall back to an older state.
func TestNothingIsRestoredIntoAMemberThatHasHadData(t *testing.T) {
	t.Parallel()
	t.Run("it has joined, and its volume is empty", func(t *testing.T) {
		t.Parallel()
		r := restoring(t, playedUtl, joinedStart)
		put(t, r, snapshottest.Data(t, 70))
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(r.DataDir); !os.IsNotExist(err) || resultOf(t, r) != (contract.RestoreResult{}) {
			t.Errorf("there are data: %v, the result is %+v", err, resultOf(t, r))
		}
	})
	t.Run("it has data, and the file is gone", func(t *testing.T) {
		t.Parallel()
		r := restoring(t, playedUtl, firstStart)
		put(t, r, snapshottest.Data(t, 70))
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		put(t, r, nil)
		if err := r.Run(t.Context()); err != nil || resultOf(t, r) != (contract.RestoreResult{}) {
			t.Errorf("%v, the result is %+v", err, resultOf(t, r))
		}
	})
}

func TestWhatCannotBeRestoredLeavesTheVolumeEmptyAndSaysWhy(t *testing.T) {
	t.Parallel()
	good := snapshottest.Data(t, 70)
	flipped := bytes.Clone(good)
	flipped[bytes.LastIndex(flipped, []byte("value"))] ^= 1
	for name, test := range map[string]struct {
		data    []byte
		program string
		change  func(*etcdagent.Restore)
		want    contract.RestoreFailure
		says    string
	}{
		"there is no file":                   {nil, playedUtl, func(r *etcdagent.Restore) { r.Path = "other.db" }, contract.RestoreSourceMissing, "other.db"},
		"it is a directory":                  {nil, playedUtl, func(r *etcdagent.Restore) { r.Path = "my-cluster" }, contract.RestoreSourceMissing, "my-cluster"},
		"the path leads out of the volume":   {good, playedUtl, func(r *etcdagent.Restore) { r.Path = "../" + filepath.Base(r.Volume) + "/my-cluster/once.db" }, contract.RestoreFailed, "escapes"},
		"a snapshot that is damaged":         {flipped, playedUtl, nil, contract.RestoreNotVerified, "hash"},
		"a snapshot that was cut off":        {good[:len(good)/2], playedUtl, nil, contract.RestoreNotVerified, ""},
		"a database that was cut off":        {pages(t, 70)[:3*os.Getpagesize()], playedUtl, nil, contract.RestoreNotVerified, "bytes of"},
		"no database":                        {bytes.Repeat([]byte("text"), 4096), playedUtl, nil, contract.RestoreNotVerified, ""},
		"another file than the backup":       {good, playedUtl, func(r *etcdagent.Restore) { r.SHA256 = strings.Repeat("0", 64) }, contract.RestoreNotVerified, "SHA-256"},
		"etcdutl fails":                      {good, `mkdir -p "${2#--data-dir=}"; echo no space left >&2; exit 3`, nil, contract.RestoreFailed, "no space left"},
		"etcdutl writes no database":         {good, `mkdir -p "${2#--data-dir=}/member/snap"`, nil, contract.RestoreFailed, "alarms"},
		"etcdutl is missing":                 {good, playedUtl, func(r *etcdagent.Restore) { r.Command = []string{"/nowhere/etcdutl"} }, contract.RestoreFailed, "etcdutl"},
		"the pod does not say how it starts": {good, playedUtl, func(r *etcdagent.Restore) { r.PodDir = t.TempDir() }, contract.RestoreFailed, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := restoring(t, test.program, firstStart)
			put(t, r, test.data)
			if test.change != nil {
				test.change(&r)
			}
			if err := r.Run(t.Context()); err == nil {
				t.Error("no error: the kubelet would start etcd on an empty volume")
			}
			result := resultOf(t, r)
			if result.Failure != test.want || !strings.Contains(result.Message, test.says) {
				t.Errorf("the result is %+v, want %s and something about %q", result, test.want, test.says)
			}
			if left, err := filepath.Glob(r.DataDir + "*"); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

func TestTheDatabaseOfARunningMemberIsNotRestored(t *testing.T) {
	t.Parallel()
	r := restoring(t, playedUtl, firstStart)
	put(t, r, pages(t, 70))
	db, err := bbolt.Open(filepath.Join(r.Volume, r.Path), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || resultOf(t, r).Failure != contract.RestoreSourceInUse {
		t.Errorf("%v, the result is %+v", err, resultOf(t, r))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Errorf("once it is stopped: %v", err)
	}
}

func TestARestoreThatIsStoppedReportsNothing(t *testing.T) {
	t.Parallel()
	r := restoring(t, playedUtl, firstStart)
	put(t, r, snapshottest.Data(t, 70))
	ctx, cancel := context.WithCancel(t.Context())
	r.Command = []string{"/bin/sh", "-c", `echo runs; exec sleep 60`, "etcdutl"}
	r.Output = writerFunc(func([]byte) { cancel() })
	if err := r.Run(ctx); err == nil {
		t.Error("no error: the kubelet would start etcd on an empty volume")
	}
	if _, err := os.Stat(r.ResultPath); !os.IsNotExist(err) {
		t.Errorf("there is a result: %v", err)
	}
}

// writerFunc is called with what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
