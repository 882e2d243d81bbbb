package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makefile writes a Makefile whose targets leave their name in a file, and returns its folder.
// The bed counts as running when the file "bed" exists.
func makefile(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	text := `good: ; @echo good >>log
bad: ; @echo bad >>log; false
bed-up: ; @echo bed-up >>log; touch bed
bed-down: ; @echo bed-down >>log; rm bed
bed-status: ; @test -e bed
`
	if err := os.WriteFile(filepath.Join(root, "Makefile"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bedRuns bool
		targets []string
		want    string
		ok      bool
	}{
		"all targets succeed":                      {targets: []string{"good", "good"}, want: "good good", ok: true},
		"the first failure ends the run":           {targets: []string{"good", "bad", "good"}, want: "good bad"},
		"a bed of ours goes at the end":            {targets: []string{"bed-up", "good"}, want: "bed-up good bed-down", ok: true},
		"a bed of ours goes after a failure too":   {targets: []string{"bed-up", "bad"}, want: "bed-up bad bed-down"},
		"a bed that was there before stays":        {bedRuns: true, targets: []string{"bed-up", "good"}, want: "bed-up good", ok: true},
		"without a bed none is asked about or put": {targets: []string{"good"}, want: "good", ok: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := makefile(t)
			if tt.bedRuns {
				if err := os.WriteFile(filepath.Join(root, "bed"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if ok := run(t.Context(), root, tt.targets); ok != tt.ok {
				t.Errorf("run = %v, want %v", ok, tt.ok)
			}
			log, err := os.ReadFile(filepath.Join(root, "log"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(string(log)), " "); got != tt.want {
				t.Errorf("ran %q, want %q", got, tt.want)
			}
		})
	}
}
