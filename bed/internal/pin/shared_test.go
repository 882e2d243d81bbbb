package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..", "..")

// What two modules have in common is compiled once only where all that it stands on has one version: a single other one costs minutes.
func TestTheModulesOfTheRepositoryShareTheirVersions(t *testing.T) {
	t.Parallel()
	ours := versionsIn(t, filepath.Join(root, "go.mod"))
	for _, module := range []string{"bed", "tools"} {
		for path, version := range versionsIn(t, filepath.Join(root, module, "go.mod")) {
			if here, isShared := ours[path]; isShared && version != here {
				t.Errorf("%s has %s %s, and the repository's own module %s: raise the older one", module, path, version, here)
			}
		}
	}
}

func TestPartsHaveNoOlderVersionsThanTheProduct(t *testing.T) {
	t.Parallel()
	ours := versionsIn(t, filepath.Join(root, "go.mod"))
	for _, part := range []string{"kubernetes", "certmanager", "coredns", "containerd"} {
		for path, version := range versionsIn(t, filepath.Join(root, "bed", "parts", part, "go.mod")) {
			if here, isShared := ours[path]; isShared && semver.Compare(version, here) < 0 {
				t.Errorf("%s has %s %s, and the repository's own module %s: run go generate ./... in bed", part, path, version, here)
			}
		}
	}
}

// versionsIn are the versions that a go.mod file asks for, or puts in their place.
func versionsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, require := range file.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range file.Replace {
		if _, isAsked := versions[replace.Old.Path]; isAsked {
			versions[replace.Old.Path] = replace.New.Version
		}
	}
	return versions
}
