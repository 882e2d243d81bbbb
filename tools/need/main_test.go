package main

import (
	"slices"
	"testing"
)

func TestMissingNamesProgramsAndTheirPackages(t *testing.T) {
	t.Parallel()
	programs, packages := missing([]string{"sh", "no-such-program", "no-such-tool=its-package", "cat=coreutils"})
	if want := []string{"no-such-program", "no-such-tool"}; !slices.Equal(programs, want) {
		t.Errorf("programs %v, want %v", programs, want)
	}
	if want := []string{"no-such-program", "its-package"}; !slices.Equal(packages, want) {
		t.Errorf("packages %v, want %v", packages, want)
	}
}

func TestRunIsQuietWhenNothingIsMissing(t *testing.T) {
	t.Parallel()
	if err := run([]string{"sh"}); err != nil {
		t.Errorf("run: %v", err)
	}
}
