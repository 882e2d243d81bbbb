// Command pin writes the go.mod files of the bed's nested modules from the table of versions and lets the go command
// complete them. `go generate ./...` in the bed's module runs it.
//
// The modules are nested because each of these programs wants its own versions of the same libraries, and because
// Kubernetes and etcd are released with replace directives, which `go install program@version` refuses.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/keyturn/keyturn/bed/internal/versions"
)

const goVersion = "1.26.0"

// renderer writes what a nested module asks for.
type renderer func(context.Context, *modfile.File) error

func main() {
	if err := run(context.Background(), "parts"); err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parts string) error {
	for name, render := range map[string]renderer{
		"kubernetes":  kubernetes,
		"certmanager": requires("github.com/cert-manager/cert-manager", versions.CertManager),
		"coredns":     requires("github.com/coredns/coredns", versions.CoreDNS),
		"containerd":  containerd,
	} {
		dir := filepath.Join(parts, name)
		if err := errors.Join(write(ctx, dir, render), share(ctx, dir)); err != nil {
			return fmt.Errorf("pinning %s: %w", name, err)
		}
	}
	// These are the servers that Keyturn runs: they are built of what their releases name.
	for name, version := range map[string]string{"etcd36": versions.EtcdNew, "etcd35": versions.EtcdOld} {
		if err := write(ctx, filepath.Join(parts, name), etcd(version)); err != nil {
			return fmt.Errorf("pinning %s: %w", name, err)
		}
	}
	return nil
}

// product is where Keyturn names its versions.
const product = "../go.mod"

// share raises the modules that a nested module has in common with the product to the product's versions: what both are
// made of is compiled once then.
func share(ctx context.Context, dir string) error {
	ours, err := read(product)
	if err != nil {
		return err
	}
	file, err := read(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for _, require := range ours.Require {
		at := slices.IndexFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == require.Mod.Path })
		if at < 0 || semver.Compare(file.Require[at].Mod.Version, require.Mod.Version) >= 0 {
			continue
		}
		if err := file.AddRequire(require.Mod.Path, require.Mod.Version); err != nil {
			return err
		}
	}
	return tidy(ctx, dir, file)
}

func read(path string) (*modfile.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, text, nil)
}

// write renders one go.mod from scratch, so that nothing of an older pin survives, and tidies it.
func write(ctx context.Context, dir string, render renderer) error {
	file := new(modfile.File)
	if err := file.AddModuleStmt("github.com/keyturn/keyturn/bed/" + filepath.ToSlash(dir)); err != nil {
		return err
	}
	if err := file.AddGoStmt(goVersion); err != nil {
		return err
	}
	if err := render(ctx, file); err != nil {
		return err
	}
	return tidy(ctx, dir, file)
}

// tidy writes the go.mod of a nested module and has the go command complete it.
func tidy(ctx context.Context, dir string, file *modfile.File) error {
	text, err := file.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644); err != nil {
		return err
	}
	return inModule(ctx, dir, "mod", "tidy").Run()
}

// kubernetes repeats the requirements of the Kubernetes module and sends every staging module, which upstream takes
// from its own tree, to the release of the same number.
func kubernetes(ctx context.Context, file *modfile.File) error {
	upstream, err := upstreamModule(ctx, "k8s.io/kubernetes", versions.Kubernetes)
	if err != nil {
		return err
	}
	staging := "v0" + strings.TrimPrefix(versions.Kubernetes, "v1")
	for _, replace := range upstream.Replace {
		if err := file.AddReplace(replace.Old.Path, "", replace.Old.Path, staging); err != nil {
			return err
		}
	}
	for _, require := range upstream.Require {
		version := require.Mod.Version
		if version == "v0.0.0" {
			version = staging
		}
		if err := file.AddRequire(require.Mod.Path, version); err != nil {
			return err
		}
	}
	if err := file.AddRequire("k8s.io/kubernetes", versions.Kubernetes); err != nil {
		return err
	}
	return file.AddRequire("go.etcd.io/etcd/server/v3", versions.KubernetesEtcd)
}

// containerd asks for the runtime and the program that holds each pod.
func containerd(_ context.Context, file *modfile.File) error {
	return tools(file, "github.com/containerd/containerd/v2", versions.Containerd, "cmd/containerd", "cmd/containerd-shim-runc-v2")
}

// etcd asks for the three programs of one etcd release.
func etcd(version string) renderer {
	return func(_ context.Context, file *modfile.File) error {
		for _, program := range []string{"server", "etcdctl", "etcdutl"} {
			if err := tools(file, "go.etcd.io/etcd/"+program+"/v3", version, ""); err != nil {
				return err
			}
		}
		return nil
	}
}

// tools requires a module and names some of its programs as tools, so that the nested module needs no source of its
// own.
func tools(file *modfile.File, module, version string, packages ...string) error {
	if err := file.AddRequire(module, version); err != nil {
		return err
	}
	for _, name := range packages {
		if err := file.AddTool(path.Join(module, name)); err != nil {
			return err
		}
	}
	return nil
}

func requires(module, version string) renderer {
	return func(_ context.Context, file *modfile.File) error { return file.AddRequire(module, version) }
}

// upstreamModule reads the go.mod of a released module.
func upstreamModule(ctx context.Context, module, version string) (*modfile.File, error) {
	listing := inModule(ctx, os.TempDir(), "mod", "download", "-json", module+"@"+version)
	listing.Stdout = nil
	out, err := listing.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading %s@%s: %w", module, version, err)
	}
	var downloaded struct {
		GoMod string `json:"GoMod"`
	}
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&downloaded); err != nil {
		return nil, fmt.Errorf("reading what the go command says of %s: %w", module, err)
	}
	text, err := os.ReadFile(downloaded.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(downloaded.GoMod, text, nil)
}

func inModule(ctx context.Context, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command
}
