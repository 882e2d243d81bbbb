package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Need is something that a step takes from the machine.
type Need struct {
	// What names it for a person: a program or a library.
	What string
	// Package is the Debian package that has it.
	Package string
	// present says whether it is there.
	present func(context.Context) bool
}

func program(name, debian string) Need {
	return Need{What: "the program " + name, Package: debian, present: func(context.Context) bool {
		_, err := exec.LookPath(name)
		return err == nil
	}}
}

// NodeNeeds are what the running node asks of the machine: kube-proxy writes its rules with nft, the kubelet mounts
// volumes with mount.
func NodeNeeds() []Need {
	return []Need{program("nft", "nftables"), program("mount", "mount")}
}

func seccompNeeds() []Need {
	return []Need{
		program("gcc", "gcc"),
		program("pkg-config", "pkg-config"),
		{What: "the C library libseccomp with its headers", Package: "libseccomp-dev", present: func(ctx context.Context) bool {
			return exec.CommandContext(ctx, "pkg-config", "--exists", "libseccomp").Run() == nil
		}},
		{What: "the C library's headers", Package: "libc6-dev", present: func(ctx context.Context) bool {
			return exec.CommandContext(ctx, "gcc", "-E", "-include", "stdlib.h", "-x", "c", os.DevNull).Run() == nil
		}},
	}
}

func mavenNeeds() []Need { return []Need{program("mvn", "maven")} }

func javaNeeds() []Need {
	return []Need{
		{What: "a Java " + javaVersion + " development kit with jlink", Package: "openjdk-" + javaVersion + "-jdk-headless", present: func(context.Context) bool {
			_, err := findJava()
			return err == nil
		}},
		program("objcopy", "binutils"),
		program("ldd", "libc-bin"),
	}
}

// Ensure installs what is missing where that is possible, on Debian as root; elsewhere it names exactly what is
// missing and stops.
func (b Builder) Ensure(ctx context.Context, needs []Need) error {
	lacking := missing(ctx, needs)
	if len(lacking) == 0 {
		return nil
	}
	if !installable() {
		return fmt.Errorf("%s is missing (on Debian the package %s); install it and try again", lacking[0].What, lacking[0].Package)
	}
	var packages []string
	for _, need := range lacking {
		packages = append(packages, need.Package)
	}
	b.tell("%-14s installing %s", "packages", strings.Join(packages, ", "))
	if err := b.install(ctx, packages); err != nil {
		return err
	}
	for _, still := range missing(ctx, lacking) {
		return fmt.Errorf("%s is missing although the package %s was installed", still.What, still.Package)
	}
	return nil
}

func missing(ctx context.Context, needs []Need) []Need {
	var found []Need
	for _, need := range needs {
		if !need.present(ctx) {
			found = append(found, need)
		}
	}
	return found
}

// installable says whether packages can be installed: on Debian and its kin, as root.
func installable() bool {
	_, err := os.Stat("/etc/debian_version")
	_, lookErr := exec.LookPath("apt-get")
	return err == nil && lookErr == nil && os.Geteuid() == 0
}

func (b Builder) install(ctx context.Context, packages []string) error {
	quiet := []string{"DEBIAN_FRONTEND=noninteractive"}
	if err := b.run(ctx, "/", quiet, "apt-get", "update", "-qq"); err != nil {
		return fmt.Errorf("fetching the lists of packages: %w", err)
	}
	args := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)
	if err := b.run(ctx, "/", quiet, "apt-get", args...); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(packages, ", "), err)
	}
	return nil
}

// javaVersion is the Java that Kafka runs on here.
const javaVersion = "17"

// findJava finds a development kit of the right version, whichever one the machine prefers.
func findJava() (string, error) {
	homes, err := filepath.Glob("/usr/lib/jvm/*")
	if err != nil {
		return "", err
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		homes = append([]string{home}, homes...)
	}
	for _, home := range homes {
		release, err := os.ReadFile(filepath.Join(home, "release"))
		if err != nil || !strings.Contains(string(release), `JAVA_VERSION="`+javaVersion+".") {
			continue
		}
		if _, err := os.Stat(filepath.Join(home, "jmods", "java.base.jmod")); err == nil {
			return home, nil
		}
	}
	return "", fmt.Errorf("no Java %s development kit in JAVA_HOME or /usr/lib/jvm", javaVersion)
}
