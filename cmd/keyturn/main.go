// Command keyturn is the operators, and a client that counts what it loses, in one program.
package main

import (
	"os"

	"github.com/keyturn/keyturn/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr))
}
