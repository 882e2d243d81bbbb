package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	chartVersion       = regexp.MustCompile(`(?m)^version: .*$`)
	chartAppVersion    = regexp.MustCompile(`(?m)^appVersion: .*$`)
	chartRepository    = regexp.MustCompile(`(?m)^  repository: ""$`)
	exampleImage       = regexp.MustCompile(`(?m)^        image: keyturn:.*$`)
	exampleImageRemark = regexp.MustCompile(`(?m)^        # The operator's image, with .*$`)
	// operatorImage and kafkaImage find images in the rendered manifests, etcdRepository is in the values and etcdVersion in the
	// definition of EtcdCluster.
	operatorImage  = regexp.MustCompile(`(?m)^ +image: "?([^"\s]+)"?$`)
	kafkaImage     = regexp.MustCompile(`--kafka-image=[^=]+=([^"\s]+)`)
	etcdRepository = regexp.MustCompile(`(?m)^  imageRepository: (\S+)$`)
	etcdVersion    = regexp.MustCompile(` version:\n +default: (\S+)\n`)
)

// packagedChart is the name of the chart's package, which helm push takes the version from.
func (r release) packagedChart() string { return "keyturn-" + r.version + ".tgz" }

// chart packs a copy of the chart that runs the released image by default.
func (r release) chart(ctx context.Context, w work) error {
	staged := filepath.Join(w.scratch, "chart", "keyturn")
	if err := os.CopyFS(staged, os.DirFS(filepath.Join(r.root, "charts", "keyturn"))); err != nil {
		return fmt.Errorf("copying the chart: %w", err)
	}
	for _, edit := range []struct {
		file  string
		line  *regexp.Regexp
		value string
	}{
		{"Chart.yaml", chartVersion, "version: " + r.version},
		{"Chart.yaml", chartAppVersion, "appVersion: " + r.version},
		{"values.yaml", chartRepository, "  repository: " + r.image},
	} {
		if err := replaceLine(filepath.Join(staged, edit.file), edit.line, edit.value); err != nil {
			return err
		}
	}
	if _, err := r.pinned(ctx, "helm", "lint", "--strict", "--quiet", staged); err != nil {
		return err
	}
	members, err := membersOf(staged, "keyturn")
	if err != nil {
		return err
	}
	return pack(filepath.Join(w.out, r.packagedChart()), members)
}

// replaceLine changes the one line of a file that matches.
func replaceLine(file string, line *regexp.Regexp, value string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what is to be packed: %w", err)
	}
	if found := len(line.FindAll(text, -1)); found != 1 {
		return fmt.Errorf("%d lines of %s match %s, want 1: adapt tools/release to it", found, filepath.Base(file), line)
	}
	if err := os.WriteFile(file, line.ReplaceAllLiteral(text, []byte(value)), 0o644); err != nil {
		return fmt.Errorf("changing what is to be packed: %w", err)
	}
	return nil
}

// membersOf lists the files of a folder by name, as members of a folder of the archive. Chart.yaml is the first of a
// chart, where helm's readers look for it.
func membersOf(folder, within string) ([]member, error) {
	var members []member
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			members = append(members, member{name: path.Join(within, name), source: filepath.Join(folder, filepath.FromSlash(name)), mode: 0o644})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the files to pack: %w", err)
	}
	return members, nil
}

// applicationFile is the example that runs the operator's image.
const applicationFile = "application/client.yaml"

// packedExamples is the name of the archive with the folder examples.
func (r release) packedExamples() string { return "keyturn-examples-" + r.version + ".tar.gz" }

// examples packs a copy of the examples that runs the released image.
func (r release) examples(_ context.Context, w work) error {
	staged := filepath.Join(w.scratch, "examples")
	if err := os.CopyFS(staged, os.DirFS(filepath.Join(r.root, "examples"))); err != nil {
		return fmt.Errorf("copying the examples: %w", err)
	}
	if err := replaceLine(filepath.Join(staged, filepath.FromSlash(applicationFile)), exampleImage, "        image: "+r.image+":"+r.version); err != nil {
		return err
	}
	if err := replaceLine(filepath.Join(staged, filepath.FromSlash(applicationFile)), exampleImageRemark, "        # The operator's image."); err != nil {
		return err
	}
	members, err := membersOf(staged, "examples")
	if err != nil {
		return err
	}
	return pack(filepath.Join(w.out, r.packedExamples()), members)
}

const (
	withoutDefinitions  = "--set=crds.strimzi=false,crds.keyturn=false"
	operatorManifest    = "keyturn.yaml"
	definitionsManifest = "keyturn-crds.yaml"
)

// manifests renders the packaged chart, not its source: what is applied with kubectl is what Helm installs.
func (r release) manifests(ctx context.Context, w work) error {
	for _, m := range []struct {
		file, about string
		arguments   []string
	}{
		{operatorManifest, "Keyturn for all namespaces, without its definitions: apply " + definitionsManifest + " first.", []string{withoutDefinitions}},
		{definitionsManifest, "The definitions. Deleting them deletes every Kafka and EtcdCluster and their pods.", []string{"--show-only", "templates/crds.yaml"}},
	} {
		args := []string{"template", "keyturn", filepath.Join(w.out, r.packagedChart()), "--namespace", "keyturn", "--set=namespace.create=true"}
		text, err := r.pinned(ctx, "helm", append(args, m.arguments...)...)
		if err != nil {
			return err
		}
		if err := save(w, m.file, slices.Concat([]byte("# Keyturn "+r.version+". "+m.about+"\n"), text)); err != nil {
			return err
		}
	}
	return nil
}

// imageList names every image that a cluster pulls with the defaults of the chart and of its resources.
func (r release) imageList(_ context.Context, w work) error {
	rendered, err := os.ReadFile(filepath.Join(w.out, operatorManifest))
	if err != nil {
		return fmt.Errorf("reading the rendered manifests: %w", err)
	}
	definition, err := os.ReadFile(filepath.Join(r.root, "config", "crd", "etcd.database.coreos.com_etcdclusters.yaml"))
	if err != nil {
		return fmt.Errorf("reading the definition of EtcdCluster: %w", err)
	}
	values, err := os.ReadFile(filepath.Join(r.root, "charts", "keyturn", "values.yaml"))
	if err != nil {
		return fmt.Errorf("reading the values of the chart: %w", err)
	}
	operator, kafka := operatorImage.FindAllSubmatch(rendered, -1), kafkaImage.FindAllSubmatch(rendered, -1)
	repository, version := etcdRepository.FindSubmatch(values), etcdVersion.FindSubmatch(definition)
	if len(operator) == 0 || len(kafka) == 0 || repository == nil || version == nil {
		return errors.New("no image of the operator, Kafka or etcd was found in the manifests: adapt tools/release to them")
	}
	images := []string{qualified(string(repository[1])) + ":v" + string(version[1])}
	for _, found := range slices.Concat(operator, kafka) {
		images = append(images, qualified(string(found[1])))
	}
	slices.Sort(images)
	return save(w, "images.txt", []byte(strings.Join(slices.Compact(images), "\n")+"\n"))
}

// qualified is the name with its registry, which tools that mirror images want.
func qualified(image string) string {
	first, rest, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io/library/" + image
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return first + "/" + rest
	}
	return "docker.io/" + image
}
