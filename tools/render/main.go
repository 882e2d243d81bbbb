// Command render writes config/install, the plain manifests of the operator, from the Helm chart, and the README and the comments of its
// values from their schema. The definitions are a file of their own: deleting what that one holds deletes every Kafka.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// manifest is one file of config/install.
type manifest struct {
	file string
	// about is the comment at the top of the file.
	about string
	// arguments are those of helm template.
	arguments []string
}

// withoutDefinitions leaves out the definitions, which have a file of their own.
const withoutDefinitions = "--set=crds.strimzi=false,crds.keyturn=false"

// showOnly precedes the one template to render.
const showOnly = "--show-only"

// exampleImage is what the manifests run, which are there to be read: it is in no registry.
const exampleImage = "--set=image.repository=keyturn"

// certManager turns on the feature gate of CAs of the type cert-manager.io.
const certManager = "--set=featureGates={+CertManagerCaType}"

func manifests() []manifest {
	return []manifest{
		{
			file:      "keyturn.yaml",
			about:     "Keyturn for all namespaces. How to render it with your image: docs/install.md.",
			arguments: []string{withoutDefinitions},
		},
		{
			file:      "keyturn-namespaced.yaml",
			about:     "Keyturn for the namespace kafka alone, which must exist. How to render it with your image: docs/install.md.",
			arguments: []string{withoutDefinitions, "--set=watchNamespaces={kafka}"},
		},
		{
			file:      "keyturn-user-operator.yaml",
			about:     "The user operator of the Kafka cluster my-cluster in the namespace kafka, which must exist; beside keyturn.yaml.",
			arguments: []string{"--set=userOperators[0].cluster=my-cluster", "--set=userOperators[0].namespace=kafka", showOnly, "templates/useroperators.yaml"},
		},
		{
			file:      "keyturn-topic-operator.yaml",
			about:     "The topic operator of the Kafka cluster my-cluster in the namespace kafka, which must exist; beside keyturn.yaml.",
			arguments: []string{"--set=topicOperators[0].cluster=my-cluster", "--set=topicOperators[0].namespace=kafka", showOnly, "templates/topicoperators.yaml"},
		},
		{
			file:      "keyturn-access-operator.yaml",
			about:     "The access operator for all namespaces; beside keyturn.yaml.",
			arguments: []string{"--set=accessOperator.enabled=true", showOnly, "templates/accessoperator.yaml"},
		},
		{
			file:      "keyturn-cert-manager.yaml",
			about:     "Rights for the feature gate CertManagerCaType in all namespaces; beside keyturn.yaml. How to turn the gate on: docs/cert-manager.md.",
			arguments: []string{certManager, showOnly, "templates/certmanager.yaml"},
		},
		{
			file:      "keyturn-cert-manager-namespaced.yaml",
			about:     "Rights for the feature gate CertManagerCaType in the namespace kafka; beside keyturn-namespaced.yaml. How to turn the gate on: docs/cert-manager.md.",
			arguments: []string{certManager, "--set=watchNamespaces={kafka}", showOnly, "templates/certmanager.yaml"},
		},
		{
			file:      "keyturn-user-operator-cert-manager.yaml",
			about:     "Rights for the feature gate CertManagerCaType of the user operator of my-cluster in the namespace kafka; beside keyturn-user-operator.yaml.",
			arguments: []string{certManager, "--set=userOperators[0].cluster=my-cluster", "--set=userOperators[0].namespace=kafka", showOnly, "templates/usercertmanager.yaml"},
		},
		{
			file:      "keyturn-etcd-operator.yaml",
			about:     "The etcd operator for all namespaces; beside keyturn.yaml.",
			arguments: []string{"--set=etcd.enabled=true", showOnly, "templates/etcdoperator.yaml", showOnly, "templates/etcdattestation.yaml"},
		},
		{
			file:      "keyturn-etcd-operator-access.yaml",
			about:     "The etcd operator for all namespaces with EtcdAccesses; instead of keyturn-etcd-operator.yaml.",
			arguments: []string{"--set=etcd.enabled=true", "--set=etcd.access.enabled=true", showOnly, "templates/etcdoperator.yaml", showOnly, "templates/etcdattestation.yaml"},
		},
		{
			file:      "crds.yaml",
			about:     "The definitions. Deleting them deletes every Kafka and its pods: docs/install.md.",
			arguments: []string{showOnly, "templates/crds.yaml"},
		},
	}
}

func main() {
	root := flag.String("C", ".", "folder of the repository")
	flag.Parse()
	if err := render(context.Background(), *root); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func render(ctx context.Context, root string) error {
	if err := writeValues(root); err != nil {
		return err
	}
	pinned, err := findHelm(ctx, root)
	if err != nil {
		return err
	}
	if _, err := pinned.run(ctx, "lint", "--strict", "--quiet", exampleImage, "charts/keyturn"); err != nil {
		return err
	}
	folder := filepath.Join(root, "config", "install")
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing old manifests: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a folder for the manifests: %w", err)
	}
	for _, m := range manifests() {
		args := []string{"template", "keyturn", "charts/keyturn", "--namespace", "keyturn", "--set=namespace.create=true", exampleImage}
		text, err := pinned.run(ctx, append(args, m.arguments...)...)
		if err != nil {
			return err
		}
		header := "# " + m.about + "\n# Code generated by tools/render from charts/keyturn. DO NOT EDIT.\n"
		if err := os.WriteFile(filepath.Join(folder, m.file), append([]byte(header), text...), 0o644); err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
	}
	return nil
}

// helm is the helm that tools/go.mod pins, run in the folder of the repository.
type helm struct {
	root, program string
}

// findHelm has Go build helm, unless its build cache has it, and returns where it is.
func findHelm(ctx context.Context, root string) (helm, error) {
	path, err := output(ctx, root, "go", "tool", "-n", "-modfile=tools/go.mod", "helm")
	return helm{root: root, program: strings.TrimSpace(string(path))}, err
}

// run returns what helm prints.
func (h helm) run(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, h.root, h.program, args...)
}

// output returns what a program prints.
func output(ctx context.Context, folder, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	var problems bytes.Buffer
	cmd.Stderr = &problems
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, text, problems.Bytes())
	}
	return text, nil
}
