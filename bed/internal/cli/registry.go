package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/bed/internal/catalog"
	"github.com/keyturn/keyturn/bed/internal/images"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/registry"
	"github.com/keyturn/keyturn/bed/internal/state"
)

func registryCommand() *cobra.Command {
	var under string
	command := &cobra.Command{
		Use: "registry --under PATH IMAGE...", Short: "Serve images such as kafka:4.3.1 to the running bed behind a password until the input ends, and print the credentials", Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, wanted []string) (err error) {
			scratch, err := os.MkdirTemp("", "bed-registry-")
			if err != nil {
				return fmt.Errorf("making a folder for the registry: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
			private := registry.New(scratch, under)
			var folder state.Folder
			if err := inSession(command, func(s session) error {
				folder, s.builder.Progress = s.folder, command.ErrOrStderr()
				return s.fill(command.Context(), private, wanted)
			}); err != nil {
				return err
			}
			return serveUntilEnd(command, folder, private)
		},
	}
	command.Flags().StringVar(&under, "under", "", "what the names of images have between "+registry.Address+" and their own; another one each time keeps containerd from having them already")
	if err := command.MarkFlagRequired("under"); err != nil {
		panic(err)
	}
	return command
}

// fill adds images of the bed to a registry.
func (s session) fill(ctx context.Context, private registry.Registry, wanted []string) error {
	archives, err := catalog.All(ctx, s.builder)
	if err != nil {
		return err
	}
	for _, archive := range archives {
		name, err := images.NameIn(archive)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(wanted, func(image string) bool { return images.Prefix+image == name })
		if at < 0 {
			continue
		}
		if err := private.Add(archive); err != nil {
			return err
		}
		wanted = slices.Delete(slices.Clone(wanted), at, at+1)
	}
	if len(wanted) > 0 {
		return fmt.Errorf("the bed has no image %q", wanted)
	}
	return nil
}

// serveUntilEnd prints the credentials, and serves until the command's input ends.
func serveUntilEnd(command *cobra.Command, folder state.Folder, private registry.Registry) error {
	listener, err := node.Listen(command.Context(), folder, registry.Address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: private, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	credentials, err := private.DockerConfig()
	if err == nil {
		_, err = fmt.Fprintln(command.OutOrStdout(), string(credentials))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, command.InOrStdin())
	}
	err = errors.Join(err, server.Close())
	if failure := <-served; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, failure)
	}
	return err
}
