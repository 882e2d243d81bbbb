package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/internal/cli/build"
)

// versionReport is what "keyturn version" says.
type versionReport struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long: `Shows the version of this program. That of the operator that last acted on a Kafka
is in its status, as operatorLastSuccessfulVersion.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return misused(cmd, err)
			}
			report := versionReport{Version: build.Version(), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			text := fmt.Sprintf("%s %s (%s, %s)\n", cmd.Root().DisplayName(), report.Version, report.GoVersion, report.Platform)
			return show(cmd.OutOrStdout(), output, text, report)
		},
	}
	addOutputFlag(cmd, &output, outputTable, outputUsage)
	return cmd
}
