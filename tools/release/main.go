// Command release writes everything that is published of one version into a folder: the image, the chart, the manifests,
// the kubectl plugin, and what describes them. It pushes nothing, and needs no network once Go's module cache is filled.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	root := flag.String("C", ".", "folder of the repository")
	version := flag.String("version", "", "version to release, such as v0.1.0")
	image := flag.String("image", "", "name of the operator's image without a tag")
	to := flag.String("to", "", "folder to write; it is replaced")
	tried := flag.Bool("trial", false, "make the release for this machine alone, from a tree that may have changes")
	flag.Parse()

	of := published()
	if *tried {
		of = trial()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, *version, *image, *to, of)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// selection is what a release is made for, and whether that must be a commit.
type selection struct {
	platforms []platform
	checkTree func(ctx context.Context, root string) error
}

// published is a whole release. It refuses what is in no commit.
func published() selection { return selection{platforms: platforms(), checkTree: checkTree} }

// trial is a release for this machine, to be tried on it.
func trial() selection {
	return selection{
		platforms: []platform{{runtime.GOOS, runtime.GOARCH}},
		checkTree: func(context.Context, string) error { return nil },
	}
}

func run(ctx context.Context, root, version, image, to string, of selection) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	r := release{root: root, image: image, platforms: of.platforms, progress: os.Stdout}
	if r.version, err = versionOf(version); err != nil {
		return err
	}
	if err := checkImage(image); err != nil {
		return err
	}
	if err := of.checkTree(ctx, root); err != nil {
		return err
	}
	r.compile = r.compileProgram
	return r.write(ctx, to)
}
