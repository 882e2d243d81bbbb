package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// The forms of output: for people, the same content twice for programs, and parts of it.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
	// outputJSONPath comes before a template.
	outputJSONPath = "jsonpath="
)

// outputUsage is what help says of the flag -o of most commands.
const outputUsage = "output format: table, json, yaml or jsonpath=TEMPLATE"

func outputs() []string { return []string{outputTable, outputJSON, outputYAML} }

// addOutputFlag gives a command the flag -o, with its completion.
func addOutputFlag(cmd *cobra.Command, output *string, byDefault, usage string) {
	cmd.Flags().StringVarP(output, "output", "o", byDefault, usage)
	completeFlag(cmd, "output", completeOutput)
}

// completeOutput leaves the cursor behind the equals sign, where the template follows.
func completeOutput(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(begun) > 1 && strings.HasPrefix(outputJSONPath, begun) && !strings.HasPrefix(outputJSON, begun) {
		return []string{outputJSONPath}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return append(outputs(), outputJSONPath), cobra.ShellCompDirectiveNoFileComp
}

func checkOutput(output string) error {
	if template, is := strings.CutPrefix(output, outputJSONPath); is {
		_, err := parseTemplate(template)
		return err
	}
	if !slices.Contains(outputs(), output) {
		return fmt.Errorf("%q is not an output format: use %s", output, alternatives(append(outputs(), outputJSONPath+"TEMPLATE")))
	}
	return nil
}

// errNoTemplate is -o jsonpath= with nothing behind it.
var errNoTemplate = errors.New("jsonpath= needs a template, for example jsonpath='{.cluster}'")

// parseTemplate reads a template as kubectl does: a field that is missing prints nothing.
func parseTemplate(template string) (*jsonpath.JSONPath, error) {
	if template == "" {
		return nil, errNoTemplate
	}
	parsed := jsonpath.New("output").AllowMissingKeys(true)
	if err := parsed.Parse(template); err != nil {
		return nil, fmt.Errorf("%q is not a JSONPath template: %w", template, err)
	}
	return parsed, nil
}

// alternatives lists what can be chosen.
func alternatives(list []string) string {
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// printFor writes a value for programs. JSON and YAML have the same content, and templates choose from it.
func printFor(out io.Writer, output string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the output as %s: %w", output, err)
	}
	if template, is := strings.CutPrefix(output, outputJSONPath); is {
		return printParts(out, template, data)
	}
	if output == outputYAML {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("encoding the output as %s: %w", output, err)
		}
	}
	_, err = fmt.Fprintf(out, "%s\n", bytes.TrimRight(data, "\n"))
	return err
}

// printParts writes what a template chooses from JSON, and nothing behind it. Executing changes a parsed
// template, so each output has its own.
func printParts(out io.Writer, template string, data []byte) error {
	parsed, err := parseTemplate(template)
	if err != nil {
		return err
	}
	var content any
	if err := kubejson.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("reading the output for the template: %w", err)
	}
	if err := parsed.Execute(out, content); err != nil {
		return fmt.Errorf("the JSONPath template %q does not fit the output, which -o json shows: %w", template, err)
	}
	return nil
}

// show writes text for people, or a value for programs.
func show(out io.Writer, output, text string, value any) error {
	if output == outputTable {
		_, err := io.WriteString(out, text)
		return err
	}
	return printFor(out, output, value)
}
