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
	"syscall"
)

func main() {
	root := flag.String("C", ".", "folder of the repository")
	version := flag.String("version", "", "version to release, such as v0.1.0")
	image := flag.String("image", "", "name of the operator's image without a tag")
	to := flag.String("to", "", "folder to write; it is replaced")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, *version, *image, *to)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, version, image, to string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	r := release{root: root, image: image, progress: os.Stdout}
	if r.version, err = versionOf(version); err != nil {
		return err
	}
	if err := checkImage(image); err != nil {
		return err
	}
	if err := checkTree(ctx, root); err != nil {
		return err
	}
	r.compile = r.compileProgram
	return r.write(ctx, to)
}
