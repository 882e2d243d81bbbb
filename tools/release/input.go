package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

var (
	// repository is a registry with a path, as image names have them, without tag and digest.
	repository = regexp.MustCompile(`^[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+$`)
	// tagged is a repository with a tag or a digest.
	tagged = regexp.MustCompile(`^(.+/[^/:@]+)[:@].*$`)
)

// versionOf returns the version without its v, which is how images, charts and labels write it.
func versionOf(given string) (string, error) {
	version, hasV := strings.CutPrefix(given, "v")
	switch {
	case given == "":
		return "", errors.New("VERSION is missing: specify VERSION=v0.1.0 or another version")
	case !hasV || semver.Canonical(given) != given:
		return "", fmt.Errorf("VERSION %q must be v and three numbers, such as v0.1.0 or v0.1.0-rc.1, without build metadata because tags of images have none", given)
	}
	return version, nil
}

// checkImage accepts what a version can be appended to.
func checkImage(given string) error {
	if given == "" {
		return errors.New("IMAGE is missing: specify the name under which the image is pushed, such as IMAGE=registry.example.org/keyturn/keyturn")
	}
	if parts := tagged.FindStringSubmatch(given); parts != nil {
		return fmt.Errorf("IMAGE %q must have no tag or digest because VERSION is its tag: specify IMAGE=%s", given, parts[1])
	}
	if !repository.MatchString(given) {
		return fmt.Errorf("IMAGE %q must be a registry and a path in lower case, such as registry.example.org/keyturn/keyturn", given)
	}
	return nil
}

// checkTree refuses to release what is in no commit.
func checkTree(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain")
	changed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("asking git for changes in %s, which must be a clone of the repository: %w", root, err)
	}
	if len(changed) > 0 {
		return fmt.Errorf("the tree has changes that are in no commit: commit, stash or remove them\n%s", strings.TrimRight(string(changed), "\n"))
	}
	return nil
}
