package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const (
	linux   = "linux"
	windows = "windows"
	// operator and agent are the programs of the image.
	operator = "keyturn"
	agent    = "keyturn-agent"
	// plugin is the name by which kubectl finds the program.
	plugin = "kubectl-keyturn"
)

// platform is a system and an architecture, as Go calls them.
type platform struct{ system, architecture string }

func (p platform) String() string { return p.system + "-" + p.architecture }

// file is what a program is called there.
func (p platform) file(program string) string {
	if p.system == windows {
		return program + ".exe"
	}
	return program
}

// programs are those that are made for it.
func (p platform) programs() []string {
	if p.system == linux {
		return []string{operator, agent, plugin}
	}
	return []string{plugin}
}

// archive is the file that holds the plugin.
func (p platform) archive() string {
	if p.system == windows {
		return plugin + "-" + p.String() + ".zip"
	}
	return plugin + "-" + p.String() + ".tar.gz"
}

// folder is where the programs for the platform are, below a folder.
func (p platform) folder(of string) string { return filepath.Join(of, p.String()) }

// platforms are those of a release.
func platforms() []platform {
	return []platform{
		{linux, "amd64"},
		{linux, "arm64"},
		{"darwin", "amd64"},
		{"darwin", "arm64"},
		{windows, "amd64"},
		{windows, "arm64"},
	}
}

func (r release) programs(ctx context.Context, w work) error {
	for _, on := range r.platforms {
		if err := os.MkdirAll(on.folder(w.scratch), 0o755); err != nil {
			return fmt.Errorf("making a folder for the program: %w", err)
		}
		for _, program := range on.programs() {
			if err := r.compile(ctx, on, program, filepath.Join(on.folder(w.scratch), on.file(program))); err != nil {
				return err
			}
		}
	}
	return nil
}

// versionVariable is where a program records its version.
const versionVariable = "github.com/keyturn/keyturn/internal/cli/build.version"

// compileProgram compiles as make build does, and records the version.
func (r release) compileProgram(ctx context.Context, on platform, program, to string) error {
	_, err := r.goFor(ctx, []string{"GOOS=" + on.system, "GOARCH=" + on.architecture},
		"build", "-buildvcs=auto", "-ldflags", "-s -w -X "+versionVariable+"="+r.version, "-o", to, "./cmd/"+program)
	return err
}

// plugins packs each program with the license, which krew asks for.
func (r release) plugins(_ context.Context, w work) error {
	for _, on := range r.platforms {
		members := []member{
			{name: on.file(plugin), source: filepath.Join(on.folder(w.scratch), on.file(plugin)), mode: 0o755},
			{name: "LICENSE", source: filepath.Join(r.root, "LICENSE"), mode: 0o644},
		}
		if err := pack(filepath.Join(w.out, on.archive()), members); err != nil {
			return err
		}
	}
	return nil
}

// materials lists the modules in each program, in the form of CycloneDX.
func (r release) materials(ctx context.Context, w work) error {
	for _, on := range r.platforms {
		for _, program := range on.programs() {
			source, target := filepath.Join(on.folder(w.scratch), on.file(program)), filepath.Join(w.out, program+"-"+on.String()+".cdx.json")
			if _, err := r.pinned(ctx, "cyclonedx-gomod", "bin", "-json", "-std", "-noserial", "-notimestamp",
				"-version", "v"+r.version, "-output", target, source); err != nil {
				return err
			}
		}
	}
	return nil
}

// imageArchive has the bed pack the image, whose base it is, too.
func (r release) imageArchive(ctx context.Context, w work) error {
	args := []string{
		"run", "-C", filepath.Join(r.root, "bed"), ".", "image", "archive",
		"--image", r.image, "--tag", r.version, "--to", filepath.Join(w.out, "keyturn-image.tar"),
	}
	for _, on := range r.platforms {
		if on.system == linux {
			args = append(args, "--programs", on.architecture+"="+on.folder(w.scratch))
		}
	}
	_, err := r.goCommand(ctx, args...)
	return err
}
