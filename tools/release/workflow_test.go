package main

import (
	"os"
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
