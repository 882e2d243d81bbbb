package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	testVersion = "7.8.9-rc.1"
	testImage   = "registry.example.org/keyturn/keyturn"
)

// Compiling for each platform takes minutes, so that only the programs for this machine and for one Windows are real ones.
func TestAReleaseSaysOneVersionEverywhere(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "release")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := release{root: root, version: testVersion, image: testImage, platforms: platforms(), progress: t.Output()}
	here := platform{runtime.GOOS, runtime.GOARCH}
	standIn := emptyProgram(t)
	r.compile = func(ctx context.Context, on platform, program, to string) error {
		if on == here || on == (platform{windows, "amd64"}) {
			return r.compileProgram(ctx, on, program, to)
		}
		return os.Link(standIn, to)
	}
	if err := r.write(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(entries) != 1 {
		t.Errorf("beside the release are %v, error %v", entries, err)
	}

	t.Run("the program", func(t *testing.T) { programSaysVersion(t, folder, here) })
	t.Run("the image", func(t *testing.T) { imageSaysVersion(t, folder) })
	t.Run("the chart", func(t *testing.T) { chartSaysVersion(t, folder) })
	t.Run("the examples", func(t *testing.T) { examplesRunImage(t, folder) })
	t.Run("the manifests", func(t *testing.T) { manifestsSayVersion(t, r, folder) })
	t.Run("the krew manifest", func(t *testing.T) { krewSaysVersion(t, folder) })
	t.Run("the SBOM", func(t *testing.T) { materialsSayVersion(t, folder, here) })
	t.Run("checksums", func(t *testing.T) { checksumsMatch(t, folder) })
	t.Run("images to mirror", func(t *testing.T) { imagesAreListed(t, folder) })
	t.Run("notes", func(t *testing.T) {
		if text := content(t, folder, notesFile); !strings.HasPrefix(text, "# Keyturn "+testVersion+"\n\n#") {
			t.Errorf("the notes begin with %.80q", text)
		}
	})
}

// emptyProgram compiles a program that does nothing.
func emptyProgram(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/empty\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-o", "program", ".")
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling the stand-in: %v\n%s", err, text)
	}
	return filepath.Join(folder, "program")
}

func programSaysVersion(t *testing.T, folder string, here platform) {
	t.Helper()
	program := filepath.Join(t.TempDir(), plugin)
	if err := os.WriteFile(program, unpacked(t, filepath.Join(folder, here.archive()))[here.file(plugin)], 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(program, "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &said); err != nil || said.Version != testVersion {
		t.Errorf("the program says version %q, error %v", said.Version, err)
	}
}

func imageSaysVersion(t *testing.T, folder string) {
	t.Helper()
	files := unpacked(t, filepath.Join(folder, "keyturn-image.tar"))
	var index struct {
		Manifests []struct{ Annotations map[string]string }
	}
	into(t, files["index.json"], &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != testImage+":"+testVersion {
		t.Errorf("the archive carries the name %v", index.Manifests)
	}
	var docker []struct {
		Config   string
		RepoTags []string
	}
	into(t, files["manifest.json"], &docker)
	if len(docker) != 1 || len(docker[0].RepoTags) != 1 || docker[0].RepoTags[0] != testImage+":"+testVersion {
		t.Fatalf("docker load finds %v", docker)
	}
	var config struct {
		Config struct{ Labels map[string]string }
	}
	into(t, files[docker[0].Config], &config)
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != testVersion {
		t.Errorf("the label of the image says version %q", got)
	}
}

func chartSaysVersion(t *testing.T, folder string) {
	t.Helper()
	files := unpacked(t, filepath.Join(folder, "keyturn-"+testVersion+".tgz"))
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(files["keyturn/Chart.yaml"], &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != testVersion || chart.AppVersion != testVersion {
		t.Errorf("the chart says %+v", chart)
	}
	var values struct {
		Image struct{ Repository, Tag string }
	}
	if err := yaml.Unmarshal(files["keyturn/values.yaml"], &values); err != nil {
		t.Fatal(err)
	}
	if values.Image.Repository != testImage || values.Image.Tag != "" {
		t.Errorf("the chart runs the image %+v by default", values.Image)
	}
}

func examplesRunImage(t *testing.T, folder string) {
	t.Helper()
	files := unpacked(t, filepath.Join(folder, "keyturn-examples-"+testVersion+".tar.gz"))
	for _, name := range []string{"examples/kafka-dual-role.yaml", "examples/application/user.yaml", "examples/application/access.yaml"} {
		if files[name] == nil {
			t.Errorf("the examples have no %s", name)
		}
	}
	var deployment struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []struct{ Image string } }
			}
		}
	}
	if err := yaml.Unmarshal(files["examples/application/client.yaml"], &deployment); err != nil {
		t.Fatal(err)
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) != 1 || containers[0].Image != testImage+":"+testVersion {
		t.Errorf("the application runs %v", containers)
	}
}

func manifestsSayVersion(t *testing.T, r release, folder string) {
	t.Helper()
	version := regexp.MustCompile(`app\.kubernetes\.io/version: "?([^"\s]+)"?`)
	for _, name := range []string{operatorManifest, definitionsManifest} {
		labels := version.FindAllStringSubmatch(content(t, folder, name), -1)
		if len(labels) == 0 {
			t.Errorf("%s has no label with a version", name)
		}
		for _, label := range labels {
			if label[1] != testVersion {
				t.Errorf("a label of %s says %s", name, label[1])
			}
		}
	}
	text := content(t, folder, operatorManifest)
	if images := operatorImage.FindAllStringSubmatch(text, -1); len(images) != 1 || images[0][1] != testImage+":"+testVersion {
		t.Errorf("%s runs %v", operatorManifest, images)
	}
	rendered, err := r.pinned(t.Context(), "helm", "template", "keyturn", filepath.Join(folder, r.packagedChart()),
		"--namespace=keyturn", "--set=namespace.create=true", withoutDefinitions)
	if err != nil {
		t.Fatal(err)
	}
	if _, manifests, _ := strings.Cut(text, "\n"); manifests != string(rendered) {
		t.Errorf("%s is not what the packaged chart renders", operatorManifest)
	}
}

func krewSaysVersion(t *testing.T, folder string) {
	t.Helper()
	var manifest krewPlugin
	if err := yaml.UnmarshalStrict([]byte(content(t, folder, krewFile)), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != "v"+testVersion || len(manifest.Spec.ShortDescription) > 50 {
		t.Errorf("the krew manifest says %s, %q", manifest.Spec.Version, manifest.Spec.ShortDescription)
	}
	if len(manifest.Spec.Platforms) != 6 {
		t.Errorf("the krew manifest has %d platforms, want 6", len(manifest.Spec.Platforms))
	}
	for _, on := range manifest.Spec.Platforms {
		archive := filepath.Join(folder, filepath.Base(on.URI))
		if sum, err := checksum(archive); err != nil || sum != on.SHA256 {
			t.Errorf("the checksum of %s is %s, the krew manifest says %s, error %v", on.URI, sum, on.SHA256, err)
		}
		files := unpacked(t, archive)
		if files[on.Bin] == nil || files["LICENSE"] == nil {
			t.Errorf("%s has no %s or no LICENSE", archive, on.Bin)
		}
		if !strings.Contains(on.URI, "/v"+testVersion+"/") {
			t.Errorf("%s is of another version", on.URI)
		}
	}
}

func materialsSayVersion(t *testing.T, folder string, here platform) {
	t.Helper()
	for _, on := range platforms() {
		for _, program := range on.programs() {
			var bom struct {
				Metadata struct {
					Component struct{ Name, Version string }
				}
				Components []struct{ Name string }
			}
			into(t, []byte(content(t, folder, program+"-"+on.String()+".cdx.json")), &bom)
			if bom.Metadata.Component.Version != "v"+testVersion {
				t.Errorf("the SBOM of %s for %s says version %q", program, on, bom.Metadata.Component.Version)
			}
			if on == here && len(bom.Components) < 20 {
				t.Errorf("the SBOM of %s for %s lists %d modules only", program, on, len(bom.Components))
			}
		}
	}
}

func checksumsMatch(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(content(t, folder, checksumFile)), "\n")
	if len(lines) != len(entries)-1 {
		t.Errorf("%d checksums of %d files", len(lines), len(entries)-1)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if got, err := checksum(filepath.Join(folder, name)); err != nil || got != sum {
			t.Errorf("the checksum of %s is %s, listed is %s, error %v", name, got, sum, err)
		}
	}
}

func imagesAreListed(t *testing.T, folder string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(content(t, folder, "images.txt")), "\n")
	for _, want := range []string{testImage + ":" + testVersion, "docker.io/apache/kafka:", "quay.io/coreos/etcd:v3."} {
		found := false
		for _, line := range lines {
			found = found || strings.HasPrefix(line, want)
		}
		if !found {
			t.Errorf("no image begins with %s: %q", want, lines)
		}
	}
}

func content(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func into(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

// unpacked reads all files of an archive.
func unpacked(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(archive) == ".zip" {
		return unzipped(t, packed)
	}
	var stream io.Reader = bytes.NewReader(packed)
	if filepath.Ext(archive) != ".tar" {
		if stream, err = gzip.NewReader(stream); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string][]byte{}
	for entries := tar.NewReader(stream); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(entries); err != nil {
			t.Fatal(err)
		}
	}
}

func unzipped(t *testing.T, packed []byte) map[string][]byte {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, file := range archive.File {
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[file.Name], err = io.ReadAll(opened); err != nil {
			t.Fatal(err)
		}
		_ = opened.Close() // read to its end
	}
	return files
}
