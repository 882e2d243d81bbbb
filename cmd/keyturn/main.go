// Command keyturn is the operators and the kubectl plugin, in one binary.
package main

import (
	"os"

	"github.com/keyturn/keyturn/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr))
}
