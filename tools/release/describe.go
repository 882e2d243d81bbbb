package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	home = "https://github.com/keyturn/keyturn"
	// krewFile is not called keyturn.yaml, as krew's index wants it, because that is the operator's manifest.
	krewFile  = "keyturn-krew.yaml"
	notesFile = "notes.md"
)

// krewPlugin is a manifest of krew.
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

func (r release) krew(_ context.Context, w work) error {
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "keyturn"},
		Spec: krewSpec{
			Version: "v" + r.version, Homepage: home, ShortDescription: "Show and rotate CAs of Kafka and etcd clusters",
			Description: "Shows what Kafka and etcd clusters trust and present, plans and starts the\nrotation of a CA of Kafka, and measures what clients lose.\n",
		},
	}
	for _, on := range r.platforms {
		sum, err := checksum(filepath.Join(w.out, on.archive()))
		if err != nil {
			return err
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": on.system, "arch": on.architecture}},
			URI:      home + "/releases/download/v" + r.version + "/" + on.archive(), SHA256: sum, Bin: on.file(plugin),
		})
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("writing the krew manifest: %w", err)
	}
	return save(w, krewFile, text)
}

// notes takes the section of the version out of the changelog, or what is not released yet if there is none.
func (r release) notes(_ context.Context, w work) error {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the changelog: %w", err)
	}
	section, found := changes(string(text), r.version)
	if !found {
		section, found = changes(string(text), "Unreleased")
	}
	if !found || section == "" {
		return fmt.Errorf("CHANGELOG.md has neither a section %q nor changes in the section \"Unreleased\": add what has changed", "## "+r.version)
	}
	return save(w, notesFile, []byte("# Keyturn "+r.version+"\n\n"+section+"\n"))
}

// changes returns what is below a heading of the changelog. A heading may have brackets, and a date after it.
func changes(changelog, heading string) (string, bool) {
	var lines []string
	found := false
	for line := range strings.Lines(changelog) {
		if title, is := strings.CutPrefix(line, "## "); is {
			if found {
				break
			}
			first, _, _ := strings.Cut(strings.TrimSpace(title), " ")
			found = strings.TrimPrefix(strings.Trim(first, "[]"), "v") == heading
			continue
		}
		if found {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "")), found
}
