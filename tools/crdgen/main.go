// Command crdgen writes everything that is generated from the Go types of api/: deep copies, apply
// configurations and CustomResourceDefinitions. The first two and the raw schemas come from controller-gen;
// crdgen turns the raw schemas into what the API server is given (see refine), with the fields that nobody acts
// on, which are a list and no Go types (api/fields).
//
// The definitions are written twice, to config/crd for kubectl and for tests, and into the Helm chart, which
// has to be complete in its own folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("C", ".", "folder of the repository")
	flag.Parse()
	if err := generate(context.Background(), *root); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

// groups are the packages with API types, relative to the root. Packages that hold parts of several groups
// have only deep copies.
func groups() []string {
	return []string{"./api/kafka/v1", "./api/kafka/v1beta2", "./api/core/v1", "./api/access/v1alpha1", "./api/etcd/v1beta2", "./api/keyturn/v1alpha1"}
}

func generate(ctx context.Context, root string) (err error) {
	raw, err := os.MkdirTemp("", "crdgen")
	if err != nil {
		return fmt.Errorf("making a folder for the raw schemas: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(raw)) }()

	if err := controllerGen(ctx, root, "object", append(groups(), "./api/condition")); err != nil {
		return err
	}
	for _, group := range groups() {
		if err := os.RemoveAll(filepath.Join(root, group, "applyconfiguration")); err != nil {
			return fmt.Errorf("removing old apply configurations: %w", err)
		}
	}
	if err := controllerGen(ctx, root, "applyconfiguration:omitToolVersion=true", groups()); err != nil {
		return err
	}
	if err := controllerGen(ctx, root, "crd:omitToolVersion=true,allowDangerousTypes=true", groups(), "output:crd:dir="+raw); err != nil {
		return err
	}
	listed, err := readList(filepath.Join(root, "api", "fields", "strimzi.yaml"))
	if err != nil {
		return err
	}
	return writeDefinitions(raw, listed, filepath.Join(root, "config", "crd"), filepath.Join(root, "charts", "keyturn", "files", "crds"))
}

// controllerGen runs one generator of the controller-gen that tools/go.mod pins.
func controllerGen(ctx context.Context, root, generator string, packages []string, more ...string) error {
	paths := make([]string, 0, len(packages))
	for _, p := range packages {
		paths = append(paths, "paths="+p)
	}
	args := slices.Concat([]string{"tool", "-modfile=tools/go.mod", "controller-gen", generator}, paths, more)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// writeDefinitions refines every definition in the folder raw with the listed fields and writes it to each of
// the targets, which then hold nothing else.
func writeDefinitions(raw string, listed map[string]any, targets ...string) error {
	files, err := filepath.Glob(filepath.Join(raw, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the raw definitions: %w", err)
	}
	for _, target := range targets {
		if err := os.RemoveAll(target); err != nil {
			return fmt.Errorf("removing old definitions: %w", err)
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("making a folder for the definitions: %w", err)
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a raw definition: %w", err)
		}
		refined, err := refine(data, listed)
		if err != nil {
			return fmt.Errorf("refining %s: %w", filepath.Base(file), err)
		}
		for _, target := range targets {
			if err := os.WriteFile(filepath.Join(target, filepath.Base(file)), refined, 0o644); err != nil {
				return fmt.Errorf("writing a definition: %w", err)
			}
		}
	}
	return nil
}
