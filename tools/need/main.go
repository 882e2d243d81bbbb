// Command need makes sure that programs are there before a long run finds out that they are not:
// it installs what is missing with apt where that is possible (root on Debian or a relative), and otherwise
// names exactly what is missing and fails.
//
// Its arguments are program=package pairs; a bare name stands for both.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// missing names the wanted programs that are not in the path, and the packages that bring them.
func missing(wanted []string) (programs, packages []string) {
	for _, w := range wanted {
		program, pkg, found := strings.Cut(w, "=")
		if !found {
			pkg = program
		}
		if _, err := exec.LookPath(program); err != nil {
			programs, packages = append(programs, program), append(packages, pkg)
		}
	}
	return programs, packages
}

func run(wanted []string) error {
	programs, packages := missing(wanted)
	if len(programs) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s (on Debian: apt-get install %s); please install and run again",
			strings.Join(programs, ", "), strings.Join(packages, " "))
	}
	fmt.Printf("installing %s\n", strings.Join(packages, ", "))
	if err := apt("update", "-qq"); err != nil {
		return err
	}
	return apt(append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)...)
}

func apt(args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
