package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Draw makes the picture of a run.
type Draw func(timeline.Timeline) (report.Picture, error)

// probeOptions are the options of "kubectl keyturn probe".
type probeOptions struct {
	draw     Draw
	config   *kubeconfig
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
	// connect and access are for etcd clusters: the EtcdAccess whose Secret clients connect with.
	connect connector
	access  string
}

// errProbeHarmed is a probe that ran and found clients harmed.
var errProbeHarmed = errors.New("clients lost, gave up, repeated or reordered records, or were refused: the account above says which")

// errProbeIncomplete is a probe that found nothing wrong and could not look at everything.
var errProbeIncomplete = errors.New("it is not known whether records were lost, because a topic could not be read to its end: the notes above say why")

// judged is what an account means for who asked for it.
func judged(result probe.Result) error {
	if result.Ok() {
		return nil
	}
	if !result.Complete {
		// What nobody has looked for counts as unread, and proves nothing.
		seen := result
		seen.Complete, seen.Clients = true, slices.Clone(result.Clients)
		for i := range seen.Clients {
			seen.Clients[i].Records.Unread = 0
		}
		if seen.Ok() {
			return errProbeIncomplete
		}
	}
	return errProbeHarmed
}

func newProbeCommand(config *kubeconfig, connect connector, draw Draw) *cobra.Command {
	o := &probeOptions{draw: draw, config: config, clock: clock.RealClock{}, connect: connect}
	cmd := &cobra.Command{
		Use:   "probe (kafka/NAME | etcd/NAME --access NAME)",
		Short: "Run real clients against a cluster and count what they lose",
		Long: `Runs producers and consumers with several kinds of trust side by side, opens
fresh connections to every node each second, and counts records that were lost,
duplicated or out of order, refused connections with their reason, and the
longest time without an acknowledgement.

Exit codes:
  0  no client lost, gave up, repeated or reordered a record, and none was refused
  1  the probe could not run, or could not read everything back: nothing is known
  3  clients were harmed; the account says how

A kind may name its listener, as in mtls@mtls. The kinds are:
  pinned         trusts ca.crt as it was at the start
  ca.crt         re-reads ca.crt
  ca.crt-first   re-reads ca.crt and trusts its first entry only
  all-crt        re-reads every *.crt
  mtls           all-crt, on a listener that wants a client certificate; keeps it
  mtls-reissued  the same, with a certificate from whatever the clients CA is at that time
  scram          all-crt, on a listener that wants user and password
  plain          no TLS

Of an etcd cluster, 16 writers repeat each write until its outcome is known, readers read
what they write, and a fresh connection is opened to every member each second. Clients
connect with the Secret of an EtcdAccess, as it is at each connection. The history of each
key is checked: none may be one that no register has. The keys are deleted at the end.`,
		Example: `  kubectl keyturn probe kafka/my-cluster -n kafka --duration 5m
  kubectl keyturn probe kafka/my-cluster -n kafka --kinds pinned,all-crt,mtls@mtls -o json
  kubectl keyturn probe etcd/my-cluster -n etcd --access my-app --duration 5m`,
		Args:              oneCluster,
		PreRunE:           o.check,
		ValidArgsFunction: completeKafka(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *probeOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.access, "access", "", "of etcd: the EtcdAccess whose Secret the clients connect with")
	flags.StringVar(&o.listener, "listener", "", "listener of the kinds that name none (default: the first suitable one)")
	flags.StringSliceVar(&o.kinds, "kinds", []string{probe.KindPinned, probe.KindBundle, probe.KindAll}, "kinds of client, each KIND or KIND@LISTENER")
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long to send; ctrl-c stops earlier")
	flags.DurationVar(&o.interval, "interval", 20*time.Millisecond, "time between the records of one client")
	addOutputFlag(cmd, &o.output, "", outputUsage+" (default: table in a terminal, json otherwise)")
	flags.StringVar(&o.report, "report", "", "directory to write report.json and a picture of the timeline to")
	flags.StringVar(&o.via, "via", string(reach.Auto), "how to reach the brokers: auto, direct, port-forward or dns")
	flags.BoolVar(&o.keep, "keep-topics", false, "do not delete the probe's topics at the end")
	flags.StringVar(&o.identity.CertificateFile, "identity-cert", "", "PEM file with the client certificate and its chain")
	flags.StringVar(&o.identity.KeyFile, "identity-key", "", "PEM file with the key of the client certificate")
	flags.StringVar(&o.identity.Secret, "identity-secret", "", "Secret with user.crt and user.key, or with password; by default the probe makes an identity for itself")
	completeFlag(cmd, "kinds", completeKinds)
	completeFlag(cmd, "via", cobra.FixedCompletions(ways(), cobra.ShellCompDirectiveNoFileComp))
}

func kinds() []string {
	return []string{
		probe.KindPinned, probe.KindBundle, probe.KindFirst, probe.KindAll,
		probe.KindMTLS, probe.KindReissued, probe.KindSCRAM, probe.KindPlain,
	}
}

func ways() []string {
	return []string{string(reach.Auto), string(reach.Direct), string(reach.PortForward), string(reach.DNS)}
}

// completeKinds offers the next of a list that has been begun.
func completeKinds(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndex(begun, ",")+1]
	offered := make([]string, 0, len(kinds()))
	for _, kind := range kinds() {
		offered = append(offered, before+kind)
	}
	return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// check wants options that can be followed.
func (o *probeOptions) check(cmd *cobra.Command, args []string) error {
	if isOfEtcd(args) && o.access == "" {
		return misused(cmd, errWhichAccess)
	}
	if o.output != "" {
		if err := checkOutput(o.output); err != nil {
			return misused(cmd, err)
		}
	}
	for _, asked := range o.kinds {
		if kind, _, _ := strings.Cut(asked, "@"); !slices.Contains(kinds(), kind) {
			return misused(cmd, fmt.Errorf("%q is not a kind of client: use %s", kind, alternatives(kinds())))
		}
	}
	if !slices.Contains(ways(), o.via) {
		return misused(cmd, fmt.Errorf("%q is not a way to the brokers: use %s", o.via, alternatives(ways())))
	}
	return nil
}

// run probes until the duration has passed or a person ends it; both give an
// account.
func (o *probeOptions) run(ctx context.Context, resource string, out io.Writer) error {
	if name, is := strings.CutPrefix(resource, etcdPrefix); is {
		connection, err := o.connect()
		if err != nil {
			return err
		}
		return o.probeEtcd(ctx, etcdCluster{connection, name}, out)
	}
	name, err := clusterName(resource)
	if err != nil {
		return err
	}
	output := o.format(out)
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
	o.wait(ctx, running, liveTable(out, output))
	result := running.Stop(live)
	// What the clients saw counts even if it cannot be written down.
	return errors.Join(show(out, output, accountText(result), result), o.write(name, result), judged(result))
}

func (o *probeOptions) prepare(ctx context.Context, name string) (probe.Options, error) {
	loader := o.config.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return probe.Options{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
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

// waitFor waits until the time has passed.
func (o *probeOptions) waitFor(ctx context.Context) {
	end := o.clock.NewTimer(o.duration)
	defer end.Stop()
	select {
	case <-ctx.Done():
	case <-end.C():
	}
}

// format is the form of output that was asked for, or the one that suits who reads it.
func (o *probeOptions) format(out io.Writer) string {
	switch {
	case o.output != "":
		return o.output
	case isTerminal(out):
		return outputTable
	default:
		return outputJSON
	}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// liveTable draws over what it drew before; where nobody looks it draws nothing.
func liveTable(out io.Writer, output string) func(probe.Snapshot) {
	if output != outputTable || !isTerminal(out) {
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

// accountText renders an account for people.
func accountText(result probe.Result) string {
	var text strings.Builder
	text.WriteString("\n" + probe.Table(result.Snapshot))
	for _, note := range result.Notes {
		text.WriteString("note: " + note + "\n")
	}
	return text.String()
}

// write leaves report and picture behind, if a person asked for them.
func (o *probeOptions) write(name string, result probe.Result) error {
	if o.report == "" {
		return nil
	}
	picture, err := o.draw(result.Timeline(kafkaPrefix + name))
	if err != nil {
		return err
	}
	return report.Write(o.report, result.Report("probe/"+name, report.Machine()), picture)
}
