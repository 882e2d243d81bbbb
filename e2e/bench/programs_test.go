package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachProgramIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for program, size := range map[string]int64{"keyturn": maxProgramMiB * mebibyte, "keyturn-agent": maxAgentMiB*mebibyte + 1} {
		path := filepath.Join(folder, program)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	figures, err := sizes(folder)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range figures {
		got[f.Name+" "+f.Target+" "+f.Unit] = f.Ok
	}
	want := map[string]bool{"program keyturn, size <= 62 MiB": true, "program keyturn-agent, size <= 18 MiB": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := sizes(t.TempDir()); err == nil {
		t.Error("programs that are not built have a size")
	}
}
