package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/bed/internal/addons"
	"github.com/keyturn/keyturn/bed/internal/build"
	"github.com/keyturn/keyturn/bed/internal/catalog"
	"github.com/keyturn/keyturn/bed/internal/images"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/state"
)

// session is one command at work on one state folder.
type session struct {
	folder  state.Folder
	command *cobra.Command
	builder build.Builder
}

func newSession(folder state.Folder, command *cobra.Command) (session, error) {
	here, err := os.Getwd()
	if err != nil {
		return session{}, fmt.Errorf("finding the repository: %w", err)
	}
	source, err := build.FindSource(here)
	if err != nil {
		return session{}, err
	}
	return session{folder: folder, command: command, builder: build.New(folder, source, command.OutOrStdout())}, nil
}

// inSession runs a command that changes the state folder.
func inSession(command *cobra.Command, act func(session) error) error {
	return withLock(command, func(folder state.Folder) error {
		s, err := newSession(folder, command)
		if err != nil {
			return err
		}
		return act(s)
	})
}

// programs builds what the node is made of, or finds it built.
func (s session) programs(ctx context.Context) (node.Programs, error) {
	var programs node.Programs
	var err error
	if programs.Bed, err = os.Executable(); err != nil {
		return programs, fmt.Errorf("finding the bed's own program: %w", err)
	}
	for _, part := range []struct {
		dir   *string
		build func(context.Context) (string, error)
	}{
		{&programs.Kubernetes, s.builder.Kubernetes},
		{&programs.Runtime, s.builder.Runtime},
		{&programs.CNI, s.builder.CNI},
	} {
		if *part.dir, err = part.build(ctx); err != nil {
			return programs, err
		}
	}
	return programs, nil
}

// everything is what `up` needs and `build` makes.
type everything struct {
	programs node.Programs
	archives []string
}

func (s session) everything(ctx context.Context) (everything, error) {
	if err := s.builder.Expect(); err != nil {
		return everything{}, err
	}
	programs, err := s.programs(ctx)
	if err != nil {
		return everything{}, err
	}
	archives, err := catalog.All(ctx, s.builder)
	if err != nil {
		return everything{}, err
	}
	others, err := filepath.Glob(filepath.Join(s.folder.Images(), "*.tar"))
	if err != nil {
		return everything{}, fmt.Errorf("listing the images in %s: %w", s.folder.Images(), err)
	}
	return everything{programs: programs, archives: append(archives, others...)}, nil
}

// install loads the images while the API server starts, then installs the addons and waits until they run. It is
// right on a bed that has them already.
func (s session) install(ctx context.Context, all everything, tell func(string)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.load(ctx, all.archives, tell) })
	group.Go(func() error { return s.apply(ctx, all, tell) })
	return group.Wait()
}

// load brings archives into containerd; what is there already costs a look.
func (s session) load(ctx context.Context, archives []string, tell func(string)) error {
	return s.inStore(ctx, func(store *images.Store) error {
		for _, archive := range archives {
			name, loaded, err := store.Load(ctx, archive)
			if err != nil {
				return err
			}
			if loaded {
				tell("image " + name + " loaded")
			}
		}
		return nil
	})
}

// inStore waits for the running bed's containerd and acts on its images.
func (s session) inStore(ctx context.Context, act func(*images.Store) error) error {
	if err := node.Runtime(ctx, s.folder); err != nil {
		return err
	}
	store, err := images.Connect(s.folder.ContainerdSocket())
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing is lost with the connection
	return act(store)
}

func (s session) apply(ctx context.Context, all everything, tell func(string)) error {
	if err := node.Ready(ctx, s.folder); err != nil {
		return err
	}
	tell("API server ready")
	definitions, err := s.builder.CertManager(ctx)
	if err != nil {
		return err
	}
	cluster := s.cluster(all)
	if err := cluster.Apply(ctx, addons.Values{
		CoreDNS: catalog.CoreDNS, CertManager: catalog.CertManager,
		DNSService: node.DNSService, VolumeProvisioner: node.VolumeProvisioner,
	}, filepath.Join(definitions, "crds")); err != nil {
		return err
	}
	tell("addons installed")
	return cluster.Wait(ctx, node.Name, tell)
}

func (s session) cluster(all everything) addons.Cluster {
	return addons.Cluster{Kubectl: all.programs.Kubectl(), Kubeconfig: s.folder.Kubeconfig()}
}

// say writes one line to the command's output.
func (s session) say(format string, values ...any) { say(s.command, format, values...) }

func (s session) tell(what string) { s.say("%s", what) }

func say(command *cobra.Command, format string, values ...any) {
	_, _ = fmt.Fprintf(command.OutOrStdout(), format+"\n", values...) // a line nobody can read is no reason to stop
}
