package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keyturn/keyturn/bed/internal/versions"
)

// niceness leaves the machine usable while Kubernetes is compiled.
const niceness = "5"

// goBuild is one call of the go command.
type goBuild struct {
	module  string // directory of the module that pins the versions
	pkg     string // what is built
	output  string
	tags    string
	ldflags string
	withC   bool // links against C libraries of the machine
}

func (b Builder) goBuild(ctx context.Context, g goBuild) error {
	args := []string{"build", "-trimpath", "-ldflags", strings.TrimSpace("-s -w " + g.ldflags), "-o", g.output}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	return b.run(ctx, g.module, goEnvironment(g.withC), "go", append(args, g.pkg)...)
}

// goInstall builds programs of a released module with the dependencies that the module itself names.
func (b Builder) goInstall(ctx context.Context, dir string, environment []string, args ...string) error {
	environment = append(environment, "GOBIN="+dir)
	return b.run(ctx, dir, environment, "go", append([]string{"install", "-trimpath", "-ldflags", "-s -w"}, args...)...)
}

func goEnvironment(withC bool) []string {
	if withC {
		return []string{"GOWORK=off", "CGO_ENABLED=1"}
	}
	return []string{"GOWORK=off", "CGO_ENABLED=0"}
}

// run runs a program at low priority. What it prints is shown when it fails.
func (b Builder) run(ctx context.Context, dir string, environment []string, name string, args ...string) error {
	command := exec.CommandContext(ctx, "nice", append([]string{"-n", niceness, name}, args...)...)
	command.Dir = dir
	command.Env = append(os.Environ(), environment...)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", name, err, said)
	}
	return nil
}

// part is the directory of a nested module.
func (b Builder) part(name string) string { return filepath.Join(b.Source, "parts", name) }

// kubernetesNames are the programs inside the Kubernetes binary.
func kubernetesNames() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet",
	}
}

// Kubernetes builds the control plane, the node's programs, etcd and kubectl, and returns the directory with a link
// for each of them.
func (b Builder) Kubernetes(ctx context.Context) (string, error) {
	sources, err := texts(b.part("kubernetes"))
	if err != nil {
		return "", err
	}
	flags := kubernetesVersionFlags(versions.Kubernetes)
	return b.Do(ctx, Step{Name: "kubernetes", Inputs: append(sources, flags), Make: func(ctx context.Context, dir string) error {
		if err := b.goBuild(ctx, goBuild{
			module: b.part("kubernetes"), pkg: ".", output: filepath.Join(dir, "kubernetes"),
			tags: "providerless", ldflags: flags,
		}); err != nil {
			return err
		}
		for _, name := range kubernetesNames() {
			if err := os.Symlink("kubernetes", filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// kubernetesVersionFlags set what the programs say of their version, which upstream's build writes in as well.
func kubernetesVersionFlags(version string) string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&flags, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X %[1]s.gitTreeState=clean",
			pkg, version, numbers[0], numbers[1])
	}
	return strings.TrimSpace(flags.String())
}

// Runtime builds containerd, its shim and runc into one directory.
func (b Builder) Runtime(ctx context.Context) (string, error) {
	sources, err := texts(b.part("containerd"))
	if err != nil {
		return "", err
	}
	const module = "github.com/containerd/containerd/v2"
	return b.Do(ctx, Step{Name: "runtime", Inputs: append(sources, versions.Runc), Make: func(ctx context.Context, dir string) error {
		if err := b.Ensure(ctx, seccompNeeds()); err != nil {
			return err
		}
		for _, program := range []string{"containerd", "containerd-shim-runc-v2"} {
			if err := b.goBuild(ctx, goBuild{
				module: b.part("containerd"), pkg: module + "/cmd/" + program, output: filepath.Join(dir, program),
				ldflags: "-X " + module + "/version.Version=" + versions.Containerd,
			}); err != nil {
				return err
			}
		}
		return b.goInstall(ctx, dir, goEnvironment(true), "-tags", "seccomp", "github.com/opencontainers/runc@"+versions.Runc)
	}})
}

// CNI builds the plugins that give pods their addresses.
func (b Builder) CNI(ctx context.Context) (string, error) {
	return b.Do(ctx, Step{Name: "cni", Inputs: []string{versions.CNIPlugins}, Make: func(ctx context.Context, dir string) error {
		const plugins = "github.com/containernetworking/plugins/plugins/"
		return b.goInstall(ctx, dir, goEnvironment(false),
			plugins+"main/ptp@"+versions.CNIPlugins, plugins+"main/loopback@"+versions.CNIPlugins, plugins+"ipam/host-local@"+versions.CNIPlugins)
	}})
}

// CoreDNS builds the cluster's name server.
func (b Builder) CoreDNS(ctx context.Context) (string, error) {
	sources, err := texts(b.part("coredns"))
	if err != nil {
		return "", err
	}
	return b.Do(ctx, Step{Name: "coredns", Inputs: sources, Make: func(ctx context.Context, dir string) error {
		return b.goBuild(ctx, goBuild{module: b.part("coredns"), pkg: ".", output: filepath.Join(dir, "coredns")})
	}})
}

// CertManager builds cert-manager's controller and lays the custom resource definitions of the same release beside it,
// in the directory crds.
func (b Builder) CertManager(ctx context.Context) (string, error) {
	sources, err := texts(b.part("certmanager"))
	if err != nil {
		return "", err
	}
	return b.Do(ctx, Step{Name: "certmanager", Inputs: sources, Make: func(ctx context.Context, dir string) error {
		if err := b.goBuild(ctx, goBuild{module: b.part("certmanager"), pkg: ".", output: filepath.Join(dir, "certmanager")}); err != nil {
			return err
		}
		module, err := b.moduleDirectory(ctx, b.part("certmanager"), "github.com/cert-manager/cert-manager")
		if err != nil {
			return err
		}
		return copyDefinitions(filepath.Join(dir, "crds"), filepath.Join(module, "deploy", "crds"))
	}})
}

// copyDefinitions takes the YAML files only: other files beside them would be applied as well.
func copyDefinitions(target, source string) error {
	paths, err := filepath.Glob(filepath.Join(source, "*.yaml"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(path)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Etcd builds etcd, etcdctl and etcdutl of one release; the part is the nested module that pins it.
func (b Builder) Etcd(ctx context.Context, part string) (string, error) {
	sources, err := texts(b.part(part))
	if err != nil {
		return "", err
	}
	return b.Do(ctx, Step{Name: part, Inputs: sources, Make: func(ctx context.Context, dir string) error {
		for program, name := range map[string]string{"server": "etcd", "etcdctl": "etcdctl", "etcdutl": "etcdutl"} {
			if err := b.goBuild(ctx, goBuild{
				module: b.part(part), pkg: "go.etcd.io/etcd/" + program + "/v3", output: filepath.Join(dir, name),
			}); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Own builds a program of the bed's own module.
func (b Builder) Own(ctx context.Context, name string) (string, error) {
	sources, err := texts(filepath.Join(b.Source, name))
	if err != nil {
		return "", err
	}
	return b.Do(ctx, Step{Name: name, Inputs: sources, Make: func(ctx context.Context, dir string) error {
		return b.goBuild(ctx, goBuild{module: b.Source, pkg: "./" + name, output: filepath.Join(dir, name)})
	}})
}

func (b Builder) moduleDirectory(ctx context.Context, dir, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off")
	var problems bytes.Buffer
	command.Stderr = &problems
	said, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module %s: %w\n%s", module, err, problems.Bytes())
	}
	return strings.TrimSpace(string(said)), nil
}
