package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// javaModules are what Kafka, its tools and a person at a running node use: the whole standard edition, signatures of
// elliptic curves, management from outside, flight recordings, Kerberos, and jcmd.
func javaModules() []string {
	return []string{
		"java.se", "jdk.charsets", "jdk.crypto.cryptoki", "jdk.crypto.ec", "jdk.jcmd", "jdk.jfr", "jdk.management",
		"jdk.management.agent", "jdk.naming.dns", "jdk.net", "jdk.security.auth", "jdk.security.jgss", "jdk.unsupported", "jdk.zipfs",
	}
}

// Java links a runtime image of Java and returns the directory with the image in java and, in root, the C libraries
// that it needs, laid out as below the root directory.
func (b Builder) Java(ctx context.Context) (string, error) {
	inputs := append([]string{javaVersion}, javaModules()...)
	return b.Do(ctx, Step{Name: "java", Inputs: inputs, Make: func(ctx context.Context, dir string) error {
		if err := b.Ensure(ctx, javaNeeds()); err != nil {
			return err
		}
		home, err := findJava()
		if err != nil {
			return err
		}
		image := filepath.Join(dir, "java")
		if err := b.run(ctx, dir, nil, filepath.Join(home, "bin", "jlink"),
			"--add-modules", strings.Join(javaModules(), ","), "--output", image,
			"--strip-debug", "--no-header-files", "--no-man-pages"); err != nil {
			return fmt.Errorf("linking the Java runtime: %w", err)
		}
		if err := keepAuthorities(image, home); err != nil {
			return err
		}
		return copyLibraries(ctx, filepath.Join(dir, "root"), image)
	}})
}

// keepAuthorities takes the public certificate authorities into the image where the distribution links to them.
func keepAuthorities(image, home string) error {
	text, err := os.ReadFile(filepath.Join(home, "lib", "security", "cacerts"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Java's certificate authorities: %w", err)
	}
	target := filepath.Join(image, "lib", "security", "cacerts")
	if err := os.Remove(target); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing Java's certificate authorities: %w", err)
	}
	return os.WriteFile(target, text, 0o644)
}

// copyLibraries copies every C library that the programs and libraries of a Java image link to.
func copyLibraries(ctx context.Context, root, image string) error {
	binaries, err := linked(image)
	if err != nil {
		return err
	}
	said, err := exec.CommandContext(ctx, "ldd", binaries...).Output()
	if err != nil {
		return fmt.Errorf("asking which C libraries Java needs: %w", err)
	}
	for _, library := range libraries(string(said), image) {
		text, err := os.ReadFile(library)
		if err != nil {
			return fmt.Errorf("copying a C library: %w", err)
		}
		target := filepath.Join(root, library)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("copying a C library: %w", err)
		}
		if err := os.WriteFile(target, text, 0o755); err != nil {
			return fmt.Errorf("copying a C library: %w", err)
		}
	}
	return nil
}

// linked lists what is linked dynamically in a Java image. The libraries of windows and sound are left out: no window
// is ever opened in a container, and they would bring half a desktop with them.
func linked(image string) ([]string, error) {
	libraries, err := filepath.Glob(filepath.Join(image, "lib", "*.so"))
	if err != nil {
		return nil, err
	}
	found := []string{filepath.Join(image, "bin", "java"), filepath.Join(image, "lib", "server", "libjvm.so")}
	for _, library := range libraries {
		switch strings.TrimSuffix(filepath.Base(library), ".so") {
		case "libawt", "libawt_headless", "libawt_xawt", "libfontmanager", "libfreetype", "libjavajpeg", "libjawt",
			"libjsound", "liblcms", "libmlib_image", "libsplashscreen":
		default:
			found = append(found, library)
		}
	}
	return found, nil
}

// libraries reads the paths out of what ldd says, each once, without those inside the image itself.
func libraries(said, image string) []string {
	known := map[string]bool{}
	var found []string
	for line := range strings.Lines(said) {
		for field := range strings.FieldsSeq(line) {
			if strings.HasPrefix(field, "/") && !strings.HasSuffix(field, ":") && !strings.HasPrefix(field, image) && !known[field] {
				known[field] = true
				found = append(found, field)
			}
		}
	}
	return found
}
