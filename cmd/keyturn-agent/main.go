// Command keyturn-agent is the first process in the pods of Kafka and etcd, and in those
// of backups.
package main

import (
	"os"

	"github.com/keyturn/keyturn/internal/cli/agentcli"
)

func main() {
	os.Exit(agentcli.Main(os.Args, os.Stdout, os.Stderr))
}
