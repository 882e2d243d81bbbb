package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/application"
)

// clientOptions are the options of "keyturn probe client".
type clientOptions struct {
	directory   string
	topic       string
	partitions  int32
	replicas    int16
	interval    time.Duration
	reportEvery time.Duration
	listen      string
}

// clientRetention is how long a topic that the client created keeps records: it reads
// each within a second.
const clientRetention = 24 * time.Hour

// newProbeClientCommand is for pods: it needs no access to the API.
func newProbeClientCommand() *cobra.Command {
	o := &clientOptions{}
	cmd := &cobra.Command{
		Use:   "client --secret-dir DIRECTORY",
		Short: "Run one client in a pod on the mounted Secret of a KafkaAccess",
		Long: `Sends records to a topic and reads them back, with nothing but the mounted Secret
of a KafkaAccess, until it is stopped. It reads the directory for each new
connection, and opens one to a bootstrap address each second. It prints its
account as one line of JSON, and serves it as /account; /healthz is ready once a
record has made the round trip. While files are missing, it waits for them.

Exit codes, when it is stopped:
  0  no record was lost, given up, repeated or reordered, and nothing was refused
  1  the client could not run, or could not read everything back: nothing is known
  3  the client was harmed; the last account says how`,
		Args:    noArguments,
		PreRunE: o.check,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.directory, "secret-dir", "", "directory where the Secret of the KafkaAccess is mounted (required)")
	flags.StringVar(&o.topic, "topic", "keyturn-probe-client", "topic to send to and read from; it is created if it is missing, and it stays")
	flags.Int32Var(&o.partitions, "partitions", 3, "partitions of a topic that is created (0: the cluster's default)")
	flags.Int16Var(&o.replicas, "replicas", 0, "replicas of a topic that is created (0: the cluster's default)")
	flags.DurationVar(&o.interval, "interval", 100*time.Millisecond, "time between two records")
	flags.DurationVar(&o.reportEvery, "report-every", 10*time.Second, "time between two accounts")
	flags.StringVar(&o.listen, "listen", ":8080", "address that serves /account and /healthz")
	return cmd
}

func (o *clientOptions) check(cmd *cobra.Command, _ []string) error {
	switch {
	case o.directory == "":
		return misused(cmd, errors.New("--secret-dir is missing: specify the directory where the Secret of the KafkaAccess is mounted"))
	case o.topic == "":
		return misused(cmd, errors.New("--topic must not be empty"))
	case o.interval <= 0 || o.reportEvery <= 0:
		return misused(cmd, errors.New("--interval and --report-every must be positive, for example 100ms and 10s"))
	case o.partitions < 0 || o.replicas < 0:
		return misused(cmd, errors.New("--partitions and --replicas must not be negative: 0 means the cluster's default"))
	}
	return nil
}

func (o *clientOptions) run(ctx context.Context, cmd *cobra.Command) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming the client after its host: %w", err)
	}
	account, err := application.Run(ctx, application.Options{
		Directory:   o.directory,
		Topic:       probe.Topic{Name: o.topic, Partitions: o.partitions, Replicas: o.replicas, Retention: clientRetention},
		Interval:    o.interval,
		ReportEvery: o.reportEvery,
		Listen:      o.listen,
		Name:        name,
		Out:         cmd.OutOrStdout(),
		Log:         cmd.ErrOrStderr(),
		Clock:       clock.RealClock{},
	})
	return judgedClient(account, err)
}

// judgedClient turns the last account of a client, and its error, into one with the exit
// code of a probe.
func judgedClient(account application.Account, err error) error {
	switch {
	case account.Harmed():
		return errors.Join(err, errProbeHarmed)
	case err == nil && !account.Complete:
		return errProbeIncomplete
	default:
		return err
	}
}
