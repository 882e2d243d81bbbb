package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releasedImage is the image of releases that are made for scenarios. The bed has it, and no registry does.
const releasedImage = "registry.example.org/keyturn/keyturn"

// officialKafka is the image that the chart runs by default. On the bed, its own image has this name, too.
const officialKafka = "docker.io/apache/kafka:4.3.1"

// Release is a folder with what is published of a version, made for this machine.
type Release struct {
	Folder, Version string
	kube            *Kubernetes
}

// MakeRelease makes the release of a version, such as 0.1.0, out of this repository, and gives the bed the images that
// a cluster would pull.
func (k *Kubernetes) MakeRelease(ctx context.Context, version, folder string) (Release, error) {
	if err := k.runGo(ctx, nil, "run", "-C", "tools", "./release", "-C", "..", "-trial", "-version", "v"+version, "-image", releasedImage, "-to", folder); err != nil {
		return Release{}, err
	}
	if err := k.runGo(ctx, nil, "run", "-C", "bed", ".", "image", "import", filepath.Join(folder, "keyturn-image.tar")); err != nil {
		return Release{}, err
	}
	if err := k.runGo(ctx, nil, "run", "-C", "bed", ".", "image", "tag", "keyturn.dev/kafka:4.3.1", officialKafka); err != nil {
		return Release{}, err
	}
	return Release{Folder: folder, Version: version, kube: k}, nil
}

// Uninstall removes Keyturn as people do, if it is installed. The definitions stay.
func (k *Kubernetes) Uninstall(ctx context.Context) error {
	return k.runGo(ctx, nil, "tool", "-modfile=tools/go.mod", "helm", "uninstall", operatorName,
		"--namespace", OperatorNamespace, "--ignore-not-found", "--wait", "--timeout", "3m")
}

// Shell is that of a person who has the files of a release, kubectl and Helm, and an empty home.
type Shell struct{ folder, home, programs string }

// Shell makes one for the folder of a release, with what it needs below another folder.
func (r Release) Shell(ctx context.Context, scratch string) (Shell, error) {
	s := Shell{folder: r.Folder, home: filepath.Join(scratch, "home"), programs: filepath.Join(scratch, "programs")}
	for _, folder := range []string{s.home, s.programs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return Shell{}, fmt.Errorf("making a folder for the shell: %w", err)
		}
	}
	for name, of := range map[string]struct{ args, suffix string }{
		"kubectl": {"run -C bed . assets", "/kubectl"},
		"helm":    {"tool -modfile=tools/go.mod -n helm", ""},
	} {
		path, err := r.kube.askGo(ctx, strings.Fields(of.args)...)
		if err != nil {
			return Shell{}, err
		}
		if err := os.Symlink(strings.TrimSpace(path)+of.suffix, filepath.Join(s.programs, name)); err != nil {
			return Shell{}, fmt.Errorf("giving the shell %s: %w", name, err)
		}
	}
	return s, nil
}

// askGo runs go in the repository and returns what it prints.
func (k *Kubernetes) askGo(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = k.Root
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w", strings.Join(args, " "), err)
	}
	return string(text), nil
}

// Type runs commands until the first that fails, and returns what they print. What a command exports is forgotten with
// them, but the folder of the release is in the PATH, which the quickstart asks for.
func (s Shell) Type(ctx context.Context, commands string) (string, error) {
	command := exec.CommandContext(ctx, "bash", "-e", "-u", "-o", "pipefail", "-x", "-c", commands)
	command.Dir = s.folder
	command.Env = []string{
		"HOME=" + s.home, "PATH=" + strings.Join([]string{s.programs, s.folder, os.Getenv("PATH")}, string(filepath.ListSeparator)),
		KubeconfigVariable + "=" + os.Getenv(KubeconfigVariable),
	}
	said, err := command.CombinedOutput()
	if err != nil {
		return string(said), fmt.Errorf("typing commands: %w\n%s", err, said)
	}
	return string(said), nil
}
