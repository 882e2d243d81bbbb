// Command kubectl-keyturn is the kubectl plugin.
package main

import (
	"os"

	"github.com/keyturn/keyturn/internal/cli"
	"github.com/keyturn/keyturn/internal/report/picture"
)

func main() {
	os.Exit(cli.Plugin(os.Args, os.Stdout, os.Stderr, picture.Render))
}
