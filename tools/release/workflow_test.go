package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestTheWorkflowPublishesWhatMakeReleaseWrites(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for _, step := range workflow.Jobs["release"].Steps {
		commands.WriteString(step.Run + "\n")
	}
	for _, want := range []string{`make release VERSION="$VERSION" IMAGE="$IMAGE"`, "out/release/keyturn-image.tar", "out/release/" + notesFile, "out/release/*"} {
		if !strings.Contains(commands.String(), want) {
			t.Errorf("no step of the workflow runs %s", want)
		}
	}
}

// make image records the version in the programs, too, for people who make no whole release.
func TestMakeImageRecordsTheVersionWhereAReleaseDoes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`-X ([^\s=]+)=`).FindAllSubmatch(text, -1)
	if len(linked) == 0 {
		t.Fatal("the Makefile links no version")
	}
	for _, found := range linked {
		if string(found[1]) != versionVariable {
			t.Errorf("the Makefile links %s, a release %s", found[1], versionVariable)
		}
	}
}
