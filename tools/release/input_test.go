package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadInputIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	clean := clone(t)
	dirty := clone(t)
	if err := os.WriteFile(filepath.Join(dirty, "new.txt"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		root, version, image, want string
	}{
		"no version":                    {clean, "", testImage, "specify VERSION=v0.1.0"},
		"a version without v":           {clean, "0.1.0", testImage, "must be v and three numbers"},
		"a version of two numbers":      {clean, "v0.1", testImage, "must be v and three numbers"},
		"a version that is none":        {clean, "vnext", testImage, "must be v and three numbers"},
		"a version with build metadata": {clean, "v0.1.0+build", testImage, "without build metadata"},
		"no image":                      {clean, "v0.1.0", "", "specify the name under which the image is pushed"},
		"an image with a tag":           {clean, "v0.1.0", testImage + ":0.1.0", "specify IMAGE=" + testImage},
		"an image with a digest":        {clean, "v0.1.0", testImage + "@sha256:00", "specify IMAGE=" + testImage},
		"an image without a registry":   {clean, "v0.1.0", "keyturn", "must be a registry and a path"},
		"an image in capitals":          {clean, "v0.1.0", "registry.example.org/Keyturn", "in lower case"},
		"changes in no commit":          {dirty, "v0.1.0", testImage, "commit, stash or remove them\n?? new.txt"},
		"no repository":                 {t.TempDir(), "v0.1.0", testImage, "must be a clone of the repository"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := filepath.Join(t.TempDir(), "release")
			err := run(t.Context(), test.root, test.version, test.image, to, published())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v, want %q", err, test.want)
			}
			if _, err := os.Stat(to); err == nil {
				t.Error("there is a release")
			}
		})
	}
}

func TestVersionsAndImagesThatAreTaken(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"v0.1.0": "0.1.0", "v1.20.300-rc.1": "1.20.300-rc.1"} {
		if got, err := versionOf(given); err != nil || got != want {
			t.Errorf("%s becomes %q, error %v", given, got, err)
		}
	}
	for _, given := range []string{testImage, "localhost:5000/keyturn", "ghcr.example.org/some-one/key_turn"} {
		if err := checkImage(given); err != nil {
			t.Error(err)
		}
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	t.Parallel()
	changelog := "# Changelog\n\n## Unreleased\n\n- new\n\n## [0.2.0] - 2026-11-27\n\n### Added\n\n- second\n\n## 0.1.0\n\n- first\n"
	for heading, want := range map[string]string{"Unreleased": "- new", "0.2.0": "### Added\n\n- second", "0.1.0": "- first"} {
		if got, found := changes(changelog, heading); !found || got != want {
			t.Errorf("the notes of %s are %q, found %t", heading, got, found)
		}
	}
	if _, found := changes(changelog, "0.3.0"); found {
		t.Error("a version without a section has notes")
	}
}

// clone is an empty repository.
func clone(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if text, err := exec.Command("git", "init", "-q", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return folder
}
