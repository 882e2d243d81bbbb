package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/bed/internal/catalog"
	"github.com/keyturn/keyturn/bed/internal/images"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/state"
	"github.com/keyturn/keyturn/bed/internal/versions"
)

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "build", Short: "Build everything that `up` needs and pack the images", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error {
				begun := time.Now()
				if _, err := s.everything(command.Context()); err != nil {
					return err
				}
				s.say("everything is built, after %.0f s", time.Since(begun).Seconds())
				if node.Alive(s.folder) == nil {
					return nil // what the running node was started from must stay
				}
				return s.builder.Prune()
			})
		},
	}
}

func kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig", Short: "Print the path of the administrator's kubeconfig", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := state.Open()
			if err != nil {
				return err
			}
			if err := node.Alive(folder); err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), folder.Kubeconfig())
			return err
		},
	}
}

func imageCommand() *cobra.Command {
	command := &cobra.Command{Use: "image", Short: "Pack images, for the running bed or for a registry"}
	command.AddCommand(loadCommand(), kafkaImageCommand(), importCommand(), tagCommand(), keyturnCommand(), archiveCommand())
	return command
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load", Short: "Load every image that the running bed lacks or has in another version", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error {
				if err := node.Alive(s.folder); err != nil {
					return err
				}
				all, err := s.everything(command.Context())
				if err != nil {
					return err
				}
				return s.load(command.Context(), all.archives, s.tell)
			})
		},
	}
}

func kafkaImageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kafka VERSION...", Short: "Build the images of versions of Kafka and load them into the running bed", Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, wanted []string) error {
			return inSession(command, func(s session) error {
				if err := node.Alive(s.folder); err != nil {
					return err
				}
				s.builder.Progress = command.ErrOrStderr()
				var archives []string
				for _, version := range wanted {
					archive, err := catalog.Kafka(command.Context(), s.builder, version)
					if err != nil {
						return err
					}
					archives = append(archives, archive)
				}
				return s.load(command.Context(), archives, s.tell)
			})
		},
	}
}

func importCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import ARCHIVE", Short: "Load the images of an archive, which carries their names, into the running bed", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return onImages(command, func(s session, store *images.Store) error {
				names, err := store.Import(command.Context(), args[0])
				if err != nil {
					return err
				}
				s.say("image %s loaded", strings.Join(names, " and "))
				return nil
			})
		},
	}
}

func tagCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tag IMAGE NAME", Short: "Give an image of the running bed a further name, with its registry", Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return onImages(command, func(s session, store *images.Store) error {
				if err := store.Tag(command.Context(), args[0], args[1]); err != nil {
					return err
				}
				s.say("image %s is also %s", args[0], args[1])
				return nil
			})
		},
	}
}

// onImages runs a command that changes the images of the running bed.
func onImages(command *cobra.Command, act func(session, *images.Store) error) error {
	return inSession(command, func(s session) error {
		if err := node.Alive(s.folder); err != nil {
			return err
		}
		return s.inStore(command.Context(), func(store *images.Store) error { return act(s, store) })
	})
}

func keyturnCommand() *cobra.Command {
	var programs, tag string
	command := &cobra.Command{
		Use: "keyturn --programs FOLDER", Short: "Pack the static programs of operator and agent as an image, and load it if the bed is up", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error { return packKeyturn(s, programs, tag) })
		},
	}
	command.Flags().StringVar(&programs, "programs", "", "folder with keyturn and keyturn-agent, linked statically")
	command.Flags().StringVar(&tag, "tag", "dev", "version of the image")
	if err := command.MarkFlagRequired("programs"); err != nil {
		panic(err)
	}
	return command
}

func packKeyturn(s session, programs, tag string) error {
	if err := os.MkdirAll(s.folder.Images(), 0o755); err != nil {
		return fmt.Errorf("making the folder of images: %w", err)
	}
	image := catalog.Keyturn(programs, tag)
	archive := filepath.Join(s.folder.Images(), "keyturn-"+tag+".tar")
	if err := image.Pack(archive); err != nil {
		return err
	}
	s.say("packed %s", image.Name)
	if node.Alive(s.folder) == nil {
		return s.load(s.command.Context(), []string{archive}, s.tell)
	}
	return nil // the next up loads it
}

// archiveCommand touches no bed: what it writes is for other clusters.
func archiveCommand() *cobra.Command {
	var programs map[string]string
	var repository, tag, archive string
	command := &cobra.Command{
		Use: "archive --programs ARCHITECTURE=FOLDER --image REPOSITORY --tag TAG --to FILE", Short: "Write the operator's image as an OCI archive, for a registry, kind and k3d", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			variants := map[string]images.Image{}
			for architecture, folder := range programs {
				variants[architecture] = catalog.Released(folder, repository, tag)
			}
			if err := images.WriteArchive(archive, repository+":"+tag, variants); err != nil {
				return err
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), "wrote %s:%s to %s for %s\n", repository, tag, archive, strings.Join(slices.Sorted(maps.Keys(programs)), " and "))
			return err
		},
	}
	command.Flags().StringToStringVar(&programs, "programs", nil, "folder with keyturn and keyturn-agent, linked statically, for an architecture as Go calls it; may be repeated")
	command.Flags().StringVar(&repository, "image", "", "name of the image without its tag")
	command.Flags().StringVar(&tag, "tag", "", "tag of the image, which is its version")
	command.Flags().StringVar(&archive, "to", "", "the archive")
	for _, required := range []string{"programs", "image", "tag", "to"} {
		if err := command.MarkFlagRequired(required); err != nil {
			panic(err)
		}
	}
	return command
}

// kubectlCommand hands over to the bed's own kubectl, so that a machine needs none.
func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl", Short: "Run the bed's kubectl as its administrator", DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			folder, err := state.Open()
			if err != nil {
				return err
			}
			s, err := newSession(folder, command)
			if err != nil {
				return err
			}
			dir, err := s.builder.Kubernetes(command.Context())
			if err != nil {
				return err
			}
			environment := append(os.Environ(), "KUBECONFIG="+folder.Kubeconfig())
			return syscall.Exec(filepath.Join(dir, "kubectl"), append([]string{"kubectl"}, args...), environment)
		},
	}
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "assets", Short: "Print a directory with kube-apiserver, etcd and kubectl for API-level tests", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error {
				s.builder.Progress = command.ErrOrStderr()
				dir, err := s.builder.Kubernetes(command.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(command.OutOrStdout(), dir)
				return err
			})
		},
	}
}

func certManagerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cert-manager", Short: "Print a directory with cert-manager's controller and its definitions in crds, for API-level tests", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error {
				s.builder.Progress = command.ErrOrStderr()
				dir, err := s.builder.CertManager(command.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(command.OutOrStdout(), dir)
				return err
			})
		},
	}
}

func kafkaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kafka [VERSION...]", Short: "Print directories with Kafka's jars in libs, separated by colons, for tests of single servers: of all versions by default",
		RunE: func(command *cobra.Command, wanted []string) error {
			if len(wanted) == 0 {
				wanted = versions.Kafka()
			}
			return inSession(command, func(s session) error {
				s.builder.Progress = command.ErrOrStderr()
				var homes []string
				for _, version := range wanted {
					home, err := s.builder.KafkaHome(command.Context(), version)
					if err != nil {
						return err
					}
					homes = append(homes, home)
				}
				_, err := fmt.Fprintln(command.OutOrStdout(), strings.Join(homes, string(filepath.ListSeparator)))
				return err
			})
		},
	}
}

func etcdCommand() *cobra.Command {
	return &cobra.Command{
		Use: "etcd", Short: "Print directories with etcd, etcdctl and etcdutl of both versions, separated by colons, for tests of single servers", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return inSession(command, func(s session) error {
				s.builder.Progress = command.ErrOrStderr()
				var homes []string
				for _, part := range []string{"etcd36", "etcd35"} {
					home, err := s.builder.Etcd(command.Context(), part)
					if err != nil {
						return err
					}
					homes = append(homes, home)
				}
				_, err := fmt.Fprintln(command.OutOrStdout(), strings.Join(homes, string(filepath.ListSeparator)))
				return err
			})
		},
	}
}
