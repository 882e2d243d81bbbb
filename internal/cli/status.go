package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/rotation"
)

// statusOptions are the options of "keyturn status".
type statusOptions struct {
	connect connector
	output  string
	watch   bool
}

func newStatusCommand() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	cmd := statusCommand(kubeconfig(flags))
	flags.AddFlags(cmd.Flags())
	return cmd
}

func statusCommand(connect connector) *cobra.Command {
	o := &statusOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "status kafka/NAME",
		Short: "Show which CA is trusted, and what each node trusts and presents",
		Long: `Shows, for each CA of a cluster, its certificates with state and end, how far a
rotation is and whom it waits for, and what each node has proven to trust and to
present: on its client and inter-broker listeners (data), its controller listener
(control), and as a client of the quorum (raft), which keeps what it was started
with until it is restarted.

It shows what the operator has written down; no Secret is read.`,
		Example: `  kubectl keyturn status kafka/my-cluster -n kafka --watch
  kubectl keyturn status kafka/my-cluster --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", outputTable, "table or json")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again whenever it changes; ctrl-c ends it")
	return cmd
}

// statusReport is what "keyturn status" says.
type statusReport struct {
	Namespace  string                `json:"namespace"`
	Cluster    string                `json:"cluster"`
	At         string                `json:"at"`
	Domains    []rotation.Status     `json:"domains"`
	Conditions []condition.Condition `json:"conditions"`
}

func (o *statusOptions) run(ctx context.Context, resource string, out io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	connection, err := o.connect()
	if err != nil {
		return err
	}
	c, err := connection.cluster(resource)
	if err != nil {
		return err
	}
	if o.watch {
		return o.keep(ctx, c, out)
	}
	report, err := c.status(ctx)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		return printJSON(out, report)
	}
	_, err = io.WriteString(out, statusText(report))
	return err
}

// keep shows the status whenever it is another one. In a terminal it draws over
// what it drew before.
func (o *statusOptions) keep(ctx context.Context, c cluster, out io.Writer) error {
	show, last := o.showing(out), ""
	err := c.repeat(ctx, func() (bool, error) {
		report, err := c.status(ctx)
		if err != nil {
			return false, err
		}
		at := report.At
		report.At = ""
		same := statusText(report)
		if same == last {
			return false, nil
		}
		last, report.At = same, at
		return false, show(report)
	})
	if errors.Is(err, errLeft) {
		return nil // that is how a person ends it
	}
	return err
}

// showing is how a watch shows one status after the other.
func (o *statusOptions) showing(out io.Writer) func(statusReport) error {
	if o.output == outputJSON {
		return func(report statusReport) error { return printJSON(out, report) }
	}
	lines, overdraw := 0, isTerminal(out)
	return func(report statusReport) error {
		text := statusText(report)
		if overdraw && lines > 0 {
			if _, err := fmt.Fprintf(out, "\x1b[%dA\x1b[J", lines); err != nil {
				return err
			}
		}
		lines = strings.Count(text, "\n")
		_, err := io.WriteString(out, text)
		return err
	}
}

// status reads one.
func (c cluster) status(ctx context.Context) (statusReport, error) {
	report := statusReport{Namespace: c.namespace, Cluster: c.name, Domains: []rotation.Status{}}
	kafka, err := c.kafka(ctx)
	if err != nil {
		return report, err
	}
	records, err := c.records(ctx, kafka)
	if err != nil {
		return report, err
	}
	now := c.clock.Now()
	report.At = stamp(now)
	for _, domain := range domains() {
		if record, found := records[domain]; found {
			report.Domains = append(report.Domains, record.Status(now))
		}
	}
	report.Conditions = append([]condition.Condition{}, kafka.Status.Conditions...)
	return report, nil
}
