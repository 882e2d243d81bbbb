package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/bed/internal/build"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/policies"
	"github.com/keyturn/keyturn/bed/internal/state"
	"github.com/keyturn/keyturn/bed/internal/volumes"
)

func upCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Start the node and wait until it takes pods", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := node.Permitted(command.Context()); err != nil {
				return err
			}
			return inSession(command, func(s session) error { return up(command.Context(), s) })
		},
	}
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "End the node and remove everything it left; builds, images and logs stay", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return withLock(command, func(folder state.Folder) error {
				begun := time.Now()
				err := node.Alive(folder)
				if downErr := node.Down(command.Context(), folder); downErr != nil {
					return downErr
				}
				if errors.Is(err, state.ErrNoRecord) {
					say(command, "the bed was not up")
					return nil
				}
				say(command, "the bed is down after %.1f s", time.Since(begun).Seconds())
				return nil
			})
		},
	}
}

func provisionerCommand() *cobra.Command {
	var kubeconfig, folder string
	command := &cobra.Command{
		Use: "provisioner", Hidden: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return volumes.Run(command.Context(), node.VolumeProvisioner, kubeconfig, folder)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	command.Flags().StringVar(&folder, "folder", "", "where the volumes lie")
	return command
}

func networkPoliciesCommand() *cobra.Command {
	var kubeconfig, trusted string
	command := &cobra.Command{
		Use: "network-policies", Hidden: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return policies.Run(command.Context(), kubeconfig, trusted)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	command.Flags().StringVar(&trusted, "trusted", "", "interface that the machine's packets come in by")
	return command
}

// withLock runs a command that changes the state folder, after any other that does.
func withLock(command *cobra.Command, act func(state.Folder) error) error {
	folder, err := state.Open()
	if err != nil {
		return err
	}
	lock, err := folder.Lock(command.Context(), func() {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "another bed command is at work; waiting until it ends") // only a hint
	})
	if err != nil {
		return err
	}
	return errors.Join(act(folder), lock.Unlock())
}

// up is quick when the bed is up already, and starts over when it is up only in part.
func up(ctx context.Context, s session) error {
	if err := node.Free(s.folder); err != nil {
		return err
	}
	all, err := s.everything(ctx)
	if err != nil {
		return err
	}
	if s.isUp(ctx, all) {
		s.say("the bed is up already; KUBECONFIG=%s", s.folder.Kubeconfig())
		return s.load(ctx, all.archives, s.tell)
	}
	if err := s.builder.Ensure(ctx, build.NodeNeeds()); err != nil {
		return err
	}
	begun := time.Now()
	tell := func(what string) { s.say("%5.1f s  %s", time.Since(begun).Seconds(), what) }
	if err := node.Up(ctx, s.folder, all.programs); err != nil {
		return err
	}
	tell("node started")
	if err := s.install(ctx, all, tell); err != nil {
		return err
	}
	s.say("the bed is up after %.1f s; KUBECONFIG=%s", time.Since(begun).Seconds(), s.folder.Kubeconfig())
	return nil
}

// isUp says whether the whole bed works; of one that works in part a person is told.
func (s session) isUp(ctx context.Context, all everything) bool {
	healths, err := node.Status(ctx, s.folder)
	if errors.Is(err, state.ErrNoRecord) {
		return false
	}
	for _, health := range healths {
		if health.Problem != nil {
			err = errors.Join(err, fmt.Errorf("%s %w", health.Name, health.Problem))
		}
	}
	if err == nil {
		var installed bool
		if installed, err = s.cluster(all).Installed(ctx, node.Name); installed {
			return true
		}
	}
	s.say("the bed is up only in part (%v); starting over", err)
	return false
}
