package agentcli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/internal/agent/install"
)

func newInstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DESTINATION",
		Short: "Copy this program to DESTINATION, whole or not at all",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding the program to install: %w", err)
			}
			return install.Copy(program, args[0])
		},
	}
}
