package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

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
)

// Main runs the command line and returns the exit code. args includes the name by
// which the binary was called, which decides what it shows itself as.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	p, args := calledAs(args)
	root := newRootCommand(p, stdout, stderr)
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
	if _, is := errors.AsType[refusedError](err); is {
		return exitRefused
	}
	if errors.Is(err, errProbeHarmed) {
		return exitHarmed
	}
	return exitFailed
}

// program is what the binary is called as.
type program struct {
	// name is what a person types before the name of a command.
	name string
	// file is the name of the executable, for which a shell completes.
	file string
	// about says in one sentence what it is for.
	about string
}

// asItself and asPlugin are the two ways to call the binary.
func asItself() program {
	return program{name: "keyturn", file: "keyturn", about: "Run Apache Kafka and etcd on Kubernetes, and rotate their certificates without interrupting clients that read the CA again or trust the previous one"}
}

func asPlugin() program {
	return program{
		name: "kubectl keyturn", file: "kubectl-keyturn",
		about: "Show what Kafka and etcd clusters trust and present, rotate CAs of Kafka, and measure what clients lose",
	}
}

// completer is the name by which kubectl calls a plugin to complete what follows
// its name.
const completer = "kubectl_complete-keyturn"

// calledAs takes the binary's name off the arguments and says what it stands for.
func calledAs(args []string) (p program, rest []string) {
	switch filepath.Base(args[0]) {
	case asPlugin().file:
		return asPlugin(), args[1:]
	case completer:
		return asPlugin(), append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	default:
		return asItself(), args[1:]
	}
}

func newRootCommand(p program, stdout, stderr io.Writer) *cobra.Command {
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
	access := newAccess(p)
	root.AddCommand(access.commands()...)
	root.AddCommand(newVersionCommand(), newOptionsCommand(access.flags))
	for _, inside := range []*cobra.Command{newOperatorCommand(), newUserOperatorCommand(), newAccessOperatorCommand(), newEtcdOperatorCommand()} {
		// Pods run these; who looks at a cluster with kubectl has no use for them.
		inside.Hidden = p == asPlugin()
		root.AddCommand(inside)
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usageText(cmd, access.flags))
		return err
	})
	root.SetFlagErrorFunc(misused)
	root.InitDefaultCompletionCmd()
	refuseOtherShells(root)
	if p == asPlugin() {
		describeCompletion(root)
	}
	return root
}
