package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/state"
)

// errNotUp makes `bed status` fail when something is missing, so that scripts can ask.
var errNotUp = errors.New("the bed is not up")

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show each component; fails unless all of them work", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := state.Open()
			if err != nil {
				return err
			}
			healths, err := node.Status(command.Context(), folder)
			if err != nil {
				return fmt.Errorf("%w: %w", errNotUp, err)
			}
			return report(command.OutOrStdout(), folder, healths)
		},
	}
}

func report(out io.Writer, folder state.Folder, healths []node.Health) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "COMPONENT\tPID\tRESTARTS\tSTATE") // a tabwriter keeps its error until Flush
	var sick []string
	for _, health := range healths {
		state := "ok"
		if health.Problem != nil {
			state = health.Problem.Error()
			sick = append(sick, health.Name)
		}
		if health.LastExit != "" {
			state += "; last end: " + health.LastExit
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", health.Name, health.MachinePID, health.Restarts, state)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	if len(sick) > 0 {
		return fmt.Errorf("%w: %s", errNotUp, strings.Join(sick, ", "))
	}
	_, err := fmt.Fprintf(out, "KUBECONFIG=%s\n", folder.Kubeconfig())
	return err
}

func logsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logs [component]", Short: "Print the log of a component, or name those that have one", Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			folder, err := state.Open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listLogs(command.OutOrStdout(), folder)
			}
			return printLog(command.OutOrStdout(), folder, args[0])
		},
	}
}

func listLogs(out io.Writer, folder state.Folder) error {
	logs, err := filepath.Glob(filepath.Join(folder.Logs(), "*.log"))
	if err != nil {
		return fmt.Errorf("listing the logs: %w", err)
	}
	for _, log := range logs {
		if _, err := fmt.Fprintln(out, strings.TrimSuffix(filepath.Base(log), ".log")); err != nil {
			return err
		}
	}
	return nil
}

func printLog(out io.Writer, folder state.Folder, component string) error {
	if component != filepath.Base(component) {
		return fmt.Errorf("%q is no component; bed logs names them", component)
	}
	log, err := os.Open(folder.Log(component))
	if err != nil {
		return fmt.Errorf("opening the log; bed logs names those that exist: %w", err)
	}
	defer func() { _ = log.Close() }() // only read
	_, err = io.Copy(out, log)
	return err
}
