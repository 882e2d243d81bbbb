package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keyturn/keyturn/internal/cli/build"
)

// Exit codes, as docs/kubectl.md promises them to scripts.
const (
	// exitFailed is the code of what could not be done, or not be found out.
	exitFailed = 1
	// exitRefused is the code of a refusal: nothing was changed.
	exitRefused = 2
	// exitHarmed is the code of a probe whose clients were harmed.
	exitHarmed = 3
	// exitExpires is the code of a check that found certificates which have expired, or will too soon.
	exitExpires = 4
	// exitNotReady is the code of a check that found clusters which are not ready.
	exitNotReady = 5
	// exitMisused is the code of a check whose command line cannot be understood.
	exitMisused = 6
)

// Main runs the command line of the program that has the operators, and returns the exit
// code. args begins with the name of the program.
func Main(args []string, stdout, stderr io.Writer) int {
	return execute(newOperatorsRoot(stdout, stderr), args[1:], stderr)
}

// Plugin is Main for the kubectl plugin. The name by which it was called says whether
// kubectl wants to complete what has been typed.
func Plugin(args []string, stdout, stderr io.Writer, draw Draw) int {
	name, rest := strings.TrimSuffix(filepath.Base(args[0]), ".exe"), args[1:]
	if name == completer {
		rest = append([]string{cobra.ShellCompRequestCmd}, rest...)
	}
	return execute(newPluginRoot(draw, stdout, stderr), rest, stderr)
}

func execute(root *cobra.Command, args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if _, told := errors.AsType[misuseError](err); cmd == root && !told {
		err = misused(root, err) // there is no such command
	}
	_, _ = fmt.Fprintln(stderr, err)
	return exitCode(err)
}

func exitCode(err error) int {
	if misuse, is := errors.AsType[misuseError](err); is && misuse.code != 0 {
		return misuse.code
	}
	if found, is := errors.AsType[findingsError](err); is {
		return found.code
	}
	if _, is := errors.AsType[refusedError](err); is {
		return exitRefused
	}
	if errors.Is(err, errProbeHarmed) || errors.Is(err, errEtcdProbeHarmed) {
		return exitHarmed
	}
	return exitFailed
}

// program is how a program shows itself.
type program struct {
	// name is what a person types before the name of a command.
	name string
	// file is the name of the executable, for which a shell completes.
	file string
	// about says in one sentence what it is for.
	about string
}

func asItself() program {
	return program{name: "keyturn", file: "keyturn", about: "Run Apache Kafka and etcd on Kubernetes, and rotate their certificates without interrupting clients that read the CA again or trust the previous one"}
}

func asPlugin() program {
	return program{
		name: "kubectl keyturn", file: "kubectl-keyturn",
		about: "Show what Kafka and etcd clusters trust and present, rotate their CAs, and measure what clients lose",
	}
}

// completer is the name by which kubectl calls a plugin to complete what follows
// its name.
const completer = "kubectl_complete-keyturn"

// newOperatorsRoot has what pods run.
func newOperatorsRoot(stdout, stderr io.Writer) *cobra.Command {
	root := newRootCommand(asItself(), pflag.NewFlagSet("none", pflag.ContinueOnError), stdout, stderr)
	probes := &cobra.Command{Use: "probe", Short: "Count what a client loses", Args: noArguments}
	probes.AddCommand(newProbeClientCommand())
	root.AddCommand(newOperatorCommand(), newUserOperatorCommand(), newTopicOperatorCommand(), newAccessOperatorCommand(), newEtcdOperatorCommand(), probes)
	return root
}

// newPluginRoot has what a person runs who looks at a cluster.
func newPluginRoot(draw Draw, stdout, stderr io.Writer) *cobra.Command {
	access := newAccess(asPlugin())
	root := newRootCommand(asPlugin(), access.flags, stdout, stderr)
	root.AddCommand(access.commands(draw)...)
	root.AddCommand(newOptionsCommand(access.flags))
	describeCompletion(root)
	return root
}

// newRootCommand has what all programs have. The flags are those that commands share.
func newRootCommand(p program, shared *pflag.FlagSet, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           p.file,
		Short:         p.about,
		Version:       build.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: p.name},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newVersionCommand())
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usageText(cmd, shared))
		return err
	})
	root.SetFlagErrorFunc(misused)
	root.InitDefaultCompletionCmd()
	refuseOtherShells(root)
	return root
}
