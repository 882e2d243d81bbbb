package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The forms of output: for people, and the same content twice for programs.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

func outputs() []string { return []string{outputTable, outputJSON, outputYAML} }

// addOutputFlag gives a command the flag -o, with its completion.
func addOutputFlag(cmd *cobra.Command, output *string, byDefault, usage string) {
	cmd.Flags().StringVarP(output, "output", "o", byDefault, usage)
	completeFlag(cmd, "output", cobra.FixedCompletions(outputs(), cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	if !slices.Contains(outputs(), output) {
		return fmt.Errorf("%q is not an output format: use %s", output, alternatives(outputs()))
	}
	return nil
}

// alternatives lists what can be chosen.
func alternatives(list []string) string {
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// printFor writes a value for programs. JSON and YAML have the same content.
func printFor(out io.Writer, output string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if output == outputYAML && err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encoding the output as %s: %w", output, err)
	}
	_, err = fmt.Fprintf(out, "%s\n", bytes.TrimRight(data, "\n"))
	return err
}

// show writes text for people, or a value for programs.
func show(out io.Writer, output, text string, value any) error {
	if output == outputTable {
		_, err := io.WriteString(out, text)
		return err
	}
	return printFor(out, output, value)
}
