package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// release is one version, and how it is made.
type release struct {
	// root is the folder of the repository.
	root string
	// version has no v.
	version string
	// image is the name of the operator's image without its tag.
	image string
	// platforms are those of the plugin. The image is for those with Linux among them.
	platforms []platform
	// compile writes a program for a platform to a file.
	compile func(ctx context.Context, on platform, program, to string) error
	// progress receives one line for each step.
	progress io.Writer
}

// work is the folder that is being filled, and one for what is needed on the way.
type work struct{ out, scratch string }

// write fills a folder beside the target and puts it in its place when it is complete.
func (r release) write(ctx context.Context, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("finding the folder to write: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("making a folder for the release: %w", err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(to), "unfinished-release-")
	if err != nil {
		return fmt.Errorf("making a folder for the release: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // what is of use is in its place then
	w := work{out: filepath.Join(folder, "out"), scratch: filepath.Join(folder, "scratch")}
	for _, made := range []string{w.out, w.scratch} {
		if err := os.Mkdir(made, 0o755); err != nil {
			return fmt.Errorf("making a folder for the release: %w", err)
		}
	}
	if err := r.steps(ctx, w); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("removing the previous release: %w", err)
	}
	if err := os.Rename(w.out, to); err != nil {
		return fmt.Errorf("putting the release in its place: %w", err)
	}
	fmt.Fprintf(r.progress, "wrote Keyturn %s to %s\n", r.version, to)
	return nil
}

// steps run one after the other. Checksums are last because they cover all other files.
func (r release) steps(ctx context.Context, w work) error {
	for _, step := range []struct {
		name string
		run  func(context.Context, work) error
	}{
		{"programs", r.programs},
		{"plugin", r.plugins},
		{"SBOM", r.materials},
		{"image", r.imageArchive},
		{"chart", r.chart},
		{"examples", r.examples},
		{"manifests", r.manifests},
		{"list of images", r.imageList},
		{"krew manifest", r.krew},
		{"notes", r.notes},
		{"checksums", r.checksums},
	} {
		begun := time.Now()
		if err := step.run(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(r.progress, "%-15s %.1f s\n", step.name, time.Since(begun).Seconds())
	}
	return nil
}

// pinned runs one of the programs that tools/go.mod pins and returns what it prints.
func (r release) pinned(ctx context.Context, program string, args ...string) ([]byte, error) {
	return r.goCommand(ctx, append([]string{"tool", "-modfile=" + filepath.Join(r.root, "tools", "go.mod"), program}, args...)...)
}

// goCommand runs go in the root of the repository.
func (r release) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	return r.goFor(ctx, nil, args...)
}

// goFor runs go with more variables.
func (r release) goFor(ctx context.Context, environment []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath"), environment...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running go %s: %w\n%s%s", strings.Join(args, " "), err, text, problems.Bytes())
	}
	return text, nil
}
