package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// probeOptions are the options of "keyturn probe".
type probeOptions struct {
	config   *genericclioptions.ConfigFlags
	clock    clock.WithTicker
	listener string
	via      string
	duration time.Duration
	interval time.Duration
	output   string
	report   string
	keep     bool
	identity target.Identification
	kinds    []string
}

const (
	outputTable = "table"
	outputJSON  = "json"
)

// errProbeFailed is a probe that ran and found something.
var errProbeFailed = errors.New("clients lost, failed or repeated records, or were refused; the account above says which")

func newProbeCommand() *cobra.Command {
	o := &probeOptions{config: genericclioptions.NewConfigFlags(true), clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "probe kafka/NAME",
		Short: "Run real clients against a cluster and count what they lose",
		Long: `Runs producers and consumers with several kinds of trust side by side, opens
fresh connections to every node each second, and counts records that were lost,
duplicated or out of order, refused connections with their reason, and the
longest time without an acknowledgement. It ends with an error if there is
anything to complain of.

A kind may name its listener, as in mtls@internal. The kinds are:
  pinned         trusts ca.crt as it was at the start
  ca.crt         re-reads ca.crt
  ca.crt-first   re-reads ca.crt and trusts its first entry only
  all-crt        re-reads every *.crt
  mtls           all-crt, on a listener that wants a client certificate; keeps it
  mtls-reissued  the same, with a certificate of what the clients CA is at the moment
  scram          all-crt, on a listener that wants user and password
  plain          no TLS`,
		Example: `  kubectl keyturn probe kafka/my-cluster -n kafka --duration 5m
  kubectl keyturn probe kafka/my-cluster --kinds pinned,all-crt,mtls@internal --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	o.config.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.listener, "listener", "", "listener of the kinds that name none (default: the first that fits)")
	flags.StringSliceVar(&o.kinds, "kinds", []string{probe.KindPinned, probe.KindBundle, probe.KindAll}, "kinds of client, each KIND or KIND@LISTENER")
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long to send; ctrl-c ends it earlier")
	flags.DurationVar(&o.interval, "interval", 20*time.Millisecond, "time between the records of one client")
	flags.StringVarP(&o.output, "output", "o", "", "table or json (default: table in a terminal, json otherwise)")
	flags.StringVar(&o.report, "report", "", "directory for report.json and the picture of the time line")
	flags.StringVar(&o.via, "via", string(reach.Auto), "way to the brokers: auto, direct, port-forward or dns")
	flags.BoolVar(&o.keep, "keep-topics", false, "leave the probe's topics behind")
	flags.StringVar(&o.identity.CertificateFile, "identity-cert", "", "PEM file with the client certificate and its chain")
	flags.StringVar(&o.identity.KeyFile, "identity-key", "", "PEM file with the key of the client certificate")
	flags.StringVar(&o.identity.Secret, "identity-secret", "", "Secret with user.crt and user.key, or with password; by default an identity is made for the time of the probe")
	return cmd
}

// run probes until the duration has passed or a person ends it; both give an
// account.
func (o *probeOptions) run(ctx context.Context, resource string, out io.Writer) error {
	name, err := clusterName(resource)
	if err != nil {
		return err
	}
	table, err := o.wantsTable(out)
	if err != nil {
		return err
	}
	options, err := o.prepare(ctx, name)
	if err != nil {
		return err
	}
	// The account is given after ctrl-c, too, so the probe outlives ctx.
	live, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	running, err := probe.Start(live, options)
	if err != nil {
		return err
	}
	o.wait(ctx, running, liveTable(out, table))
	result := running.Stop(live)
	if err := o.print(out, result, table); err != nil {
		return err
	}
	if err := o.write(name, result); err != nil {
		return err
	}
	if !result.Ok() {
		return errProbeFailed
	}
	return nil
}

// clusterName accepts kafka/NAME, and NAME alone.
func clusterName(resource string) (string, error) {
	kind, name, found := strings.Cut(resource, "/")
	if !found {
		return resource, nil
	}
	if kind != "kafka" && kind != "kafkas" || name == "" {
		return "", fmt.Errorf("%q is not kafka/NAME", resource)
	}
	return name, nil
}

func (o *probeOptions) prepare(ctx context.Context, name string) (probe.Options, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return probe.Options{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return probe.Options{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	// The watches have to outlive ctrl-c: consumers read to the end after it.
	cluster, err := target.Open(context.WithoutCancel(ctx), config, reach.Names{Namespace: namespace, Cluster: name}, reach.Via(o.via))
	if err != nil {
		return probe.Options{}, err
	}
	return cluster.Options(ctx, target.Request{
		Run:      strconv.FormatInt(o.clock.Now().UnixMilli(), 36),
		Kinds:    o.kinds,
		Listener: o.listener,
		Identity: o.identity,
		Interval: o.interval,
		Keep:     o.keep,
		Clock:    o.clock,
	})
}

// wait shows the table each second until the time has passed.
func (o *probeOptions) wait(ctx context.Context, running *probe.Probe, show func(probe.Snapshot)) {
	end := o.clock.NewTimer(o.duration)
	defer end.Stop()
	ticker := o.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C():
			return
		case <-ticker.C():
			show(running.Snapshot())
		}
	}
}

// wantsTable decides the form of output.
func (o *probeOptions) wantsTable(out io.Writer) (bool, error) {
	switch o.output {
	case outputTable:
		return true, nil
	case outputJSON:
		return false, nil
	case "":
		return isTerminal(out), nil
	default:
		return false, fmt.Errorf("output %q is neither %s nor %s", o.output, outputTable, outputJSON)
	}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// liveTable draws over what it drew before; where nobody looks it draws nothing.
func liveTable(out io.Writer, table bool) func(probe.Snapshot) {
	if !table || !isTerminal(out) {
		return func(probe.Snapshot) {}
	}
	return redraw(out)
}

// redraw moves up over the last table before it draws the next.
func redraw(out io.Writer) func(probe.Snapshot) {
	lines := 0
	return func(snapshot probe.Snapshot) {
		text := probe.Table(snapshot)
		if lines > 0 {
			_, _ = fmt.Fprintf(out, "\x1b[%dA\x1b[J", lines)
		}
		_, _ = io.WriteString(out, text)
		lines = strings.Count(text, "\n")
	}
}

func (o *probeOptions) print(out io.Writer, result probe.Result, table bool) error {
	if !table {
		data, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding account: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", data)
		return err
	}
	var text strings.Builder
	text.WriteString("\n" + probe.Table(result.Snapshot))
	for _, note := range result.Notes {
		text.WriteString("note: " + note + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// write leaves report and picture behind, if a person asked for them.
func (o *probeOptions) write(name string, result probe.Result) error {
	if o.report == "" {
		return nil
	}
	picture, err := timeline.Render(result.Timeline("kafka/" + name))
	if err != nil {
		return err
	}
	return report.Write(o.report, result.Report("probe/"+name, report.Machine()), report.Picture(picture))
}
