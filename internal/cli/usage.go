package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misuseError is a command line that cannot be understood.
type misuseError struct {
	command string
	err     error
	// code is the exit code; 0 leaves it to that of everything that could not be done.
	code int
}

func (e misuseError) Error() string {
	return fmt.Sprintf("%v\nSee '%s --help'.", e.err, e.command)
}

func (e misuseError) Unwrap() error { return e.err }

// misused says where to read how a command is used.
func misused(cmd *cobra.Command, err error) error {
	return misuseError{command: cmd.CommandPath(), err: err, code: misuseCodes()[cmd.Name()]}
}

// misuseCodes are the exit codes of commands that scripts run unattended, which have to tell a mistake in the
// script from a cluster that could not be asked.
func misuseCodes() map[string]int { return map[string]int{checkName: exitMisused} }

// errNoKafka is a command line without the name of a Kafka.
var errNoKafka = errors.New("specify kafka/NAME, for example kafka/my-cluster")

// oneKafka wants the name of one Kafka.
func oneKafka(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return misused(cmd, errNoKafka)
	case 1:
		if _, err := clusterName(args[0]); err != nil {
			return misused(cmd, err)
		}
		return nil
	default:
		return misused(cmd, fmt.Errorf("unexpected argument %q: specify one kafka/NAME", args[1]))
	}
}

// etcdPrefix is what people write before the name of an EtcdCluster.
const etcdPrefix = "etcd/"

// What people write before the name of a Kafka.
const (
	kafkaPrefix  = "kafka/"
	kafkasPrefix = "kafkas/"
)

// clusterName accepts kafka/NAME, and NAME alone.
func clusterName(resource string) (string, error) {
	kind, name, found := strings.Cut(resource, "/")
	if !found {
		return resource, nil
	}
	if kind != "kafka" && kind != "kafkas" || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q does not name a Kafka cluster: specify kafka/NAME", resource)
	}
	return name, nil
}

// usageText says how a command is used. Flags that all commands share are left to
// the command "options".
func usageText(cmd *cobra.Command, shared *pflag.FlagSet) string {
	var b strings.Builder
	line := cmd.UseLine()
	if !cmd.Runnable() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	b.WriteString(commandsText(cmd))
	if own := ownFlags(cmd, shared); own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsages())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	if connects := cmd.Flags().Lookup("kubeconfig") != nil; shared.HasFlags() && (connects || cmd == cmd.Root()) {
		fmt.Fprintf(&b, "\nUse \"%s options\" for the flags that say which Kubernetes cluster, namespace and user are meant.\n", cmd.Root().CommandPath())
	}
	return b.String()
}

// ownFlags are the flags of a command that it does not share.
func ownFlags(cmd *cobra.Command, shared *pflag.FlagSet) *pflag.FlagSet {
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if shared.Lookup(flag.Name) != flag {
			own.AddFlag(flag)
		}
	})
	return own
}

func commandsText(cmd *cobra.Command) string {
	if !cmd.HasAvailableSubCommands() {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nCommands:\n")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	return b.String()
}

// newOptionsCommand lists what the help of the commands leaves out, as kubectl does.
func newOptionsCommand(shared *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that say which Kubernetes cluster, namespace and user are meant",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "check, status, plan, rotate and probe take the following flags, as kubectl does:\n\n%s", shared.FlagUsages())
			return err
		},
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(cmd, fmt.Errorf("%s takes no argument, and %q is one", cmd.CommandPath(), args[0]))
	}
	return nil
}
