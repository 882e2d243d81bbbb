package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/rotation"
)

// statusOptions are the options of "keyturn status".
type statusOptions struct {
	connect connector
	output  string
	watch   bool
	all     bool
	// operatorNamespace has the records of etcd clusters.
	operatorNamespace string
}

func statusCommand(connect connector) *cobra.Command {
	o := &statusOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "status (kafka/NAME | etcd/NAME | --all-namespaces)",
		Short: "Show which CA is trusted, and what each node trusts and presents",
		Long: `Shows, for each CA of a Kafka cluster, its certificates with their state and expiry,
how far a rotation has got and what it is waiting for, and what each node has proven
to trust and to present: on its client and inter-broker listeners (data), on its
controller listener (control), and as a client of the quorum (raft), which keeps what
it was started with until it is restarted. The conditions of the Kafka follow; of a
Kafka that the operator has refused there may be nothing else.

With --all-namespaces it shows one line for each Kafka.

It shows what the operator has recorded; no Secret is read.

Of an etcd cluster it shows its CAs, what each member presents on its ports, and whether
its requests for certificates are answered. The CAs are read from the Secret of a member,
which holds no key. With the right to read ConfigMaps in the namespace of the operator
(--operator-namespace), it shows how far a rotation has got, too.`,
		Example: `  kubectl keyturn status kafka/my-cluster -n kafka --watch
  kubectl keyturn status kafka/my-cluster -n kafka -o yaml
  kubectl keyturn status etcd/my-cluster -n etcd
  kubectl keyturn status --all-namespaces`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
		},
		ValidArgsFunction: completeInNamespace(connect, &o.all),
	}
	addOutputFlag(cmd, &o.output, outputTable, outputUsage)
	addOperatorNamespaceFlag(cmd, &o.operatorNamespace, "which has the records")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again whenever it changes, until ctrl-c")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "show every Kafka in every namespace, one line each")
	return cmd
}

// Command lines that do not say what to show.
var (
	errWhichStatus = errors.New("specify kafka/NAME, etcd/NAME or --all-namespaces")
	errOneOrAll    = errors.New("specify either one cluster or --all-namespaces, which shows Kafka clusters, and not both")
)

func (o *statusOptions) arguments(cmd *cobra.Command, args []string) error {
	if err := checkOutput(o.output); err != nil {
		return misused(cmd, err)
	}
	switch {
	case o.all && len(args) > 0:
		return misused(cmd, errOneOrAll)
	case o.all:
		return nil
	case len(args) == 0:
		return misused(cmd, errWhichStatus)
	default:
		return oneCluster(cmd, args)
	}
}

// oneCluster wants the name of one Kafka or one EtcdCluster.
func oneCluster(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return oneKafka(cmd, args)
	}
	switch kind, name, found := strings.Cut(args[0], "/"); {
	case len(args) == 1 && kind+"/" == etcdPrefix && name != "":
		return nil
	case found && kind+"/" != kafkaPrefix && kind+"/" != kafkasPrefix:
		return misused(cmd, fmt.Errorf("%q does not name a cluster: specify kafka/NAME or etcd/NAME", args[0]))
	default:
		return oneKafka(cmd, args)
	}
}

// statusReport is what "keyturn status" says of one Kafka.
type statusReport struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	At        string `json:"at"`
	// Message says why there are no domains; empty when there are.
	Message    string                `json:"message,omitempty"`
	Domains    []rotation.Status     `json:"domains"`
	Conditions []condition.Condition `json:"conditions"`
	// Users are counted by the user operator; nil without one.
	Users *kafkav1.UsersStatus `json:"users,omitempty"`
}

// sight is what one look at a cluster gives.
type sight struct {
	// value is for programs, text for people; timeless is the text without the time
	// of the look.
	value          any
	text, timeless string
}

// looking is a way to take one.
type looking func(context.Context) (sight, error)

func (o *statusOptions) run(ctx context.Context, args []string, out io.Writer) error {
	connection, err := o.connect()
	if err != nil {
		return err
	}
	look, err := o.look(connection, args)
	if err != nil {
		return err
	}
	if o.watch {
		return o.keep(ctx, connection, look, out)
	}
	seen, err := look(ctx)
	if err != nil {
		return err
	}
	return show(out, o.output, seen.text, seen.value)
}

// look is the way to look at what is named.
func (o *statusOptions) look(connection connection, args []string) (looking, error) {
	if o.all {
		return connection.overview, nil
	}
	if name, is := strings.CutPrefix(args[0], etcdPrefix); is {
		return etcdLook{etcdCluster{connection: connection, name: name}, o.operatorNamespace}.closeUp, nil
	}
	c, err := connection.cluster(args[0])
	return c.closeUp, err
}

// keep shows the status whenever it is another one. In a terminal it draws over
// what it drew before.
func (o *statusOptions) keep(ctx context.Context, c connection, look looking, out io.Writer) error {
	display, last := o.display(out), ""
	err := c.repeat(ctx, func() (bool, error) {
		seen, err := look(ctx)
		if err != nil || seen.timeless == last {
			return false, err
		}
		last = seen.timeless
		return false, display(seen)
	})
	if errors.Is(err, errLeft) {
		return nil // that is how a person ends it
	}
	return err
}

// display is how a watch shows one status after the other.
func (o *statusOptions) display(out io.Writer) func(sight) error {
	if o.output != outputTable {
		separator := ""
		return func(seen sight) error {
			if _, err := io.WriteString(out, separator); err != nil {
				return err
			}
			separator = o.separator()
			return printFor(out, o.output, seen.value)
		}
	}
	lines, overdraw := 0, isTerminal(out)
	return func(seen sight) error {
		if overdraw && lines > 0 {
			if _, err := fmt.Fprintf(out, "\x1b[%dA\x1b[J", lines); err != nil {
				return err
			}
		}
		lines = strings.Count(seen.text, "\n")
		_, err := io.WriteString(out, seen.text)
		return err
	}
}

// separator is what a watch writes between two outputs for programs.
func (o *statusOptions) separator() string {
	switch o.output {
	case outputYAML:
		return "---\n"
	case outputJSON:
		return ""
	default:
		return "\n" // templates end without a line break
	}
}

// closeUp looks at one Kafka.
func (c cluster) closeUp(ctx context.Context) (sight, error) {
	kafka, err := c.kafka(ctx)
	if err != nil {
		return sight{}, err
	}
	report, err := c.status(ctx, kafka)
	if err != nil {
		return sight{}, err
	}
	seen := sight{value: report, text: statusText(report)}
	report.At = ""
	seen.timeless = statusText(report)
	return seen, nil
}

// status reads what is recorded of a Kafka. That nothing is recorded is no error:
// the conditions of a Kafka that was refused say why.
func (c cluster) status(ctx context.Context, kafka *kafkav1.Kafka) (statusReport, error) {
	now := c.clock.Now()
	report := statusReport{
		Namespace: c.namespace, Cluster: c.name, At: stamp(now), Domains: []rotation.Status{},
		Conditions: append([]condition.Condition{}, kafka.Status.Conditions...), Users: kafka.Status.Users,
	}
	records, err := c.records(ctx, kafka)
	if _, missing := errors.AsType[noRecordError](err); missing {
		report.Message = unrecorded(kafka)
		return report, nil
	}
	if err != nil {
		return report, err
	}
	for _, domain := range domains() {
		if record, found := records[domain]; found {
			report.Domains = append(report.Domains, record.Status(now))
		}
	}
	return report, nil
}

// unrecorded says why nothing is known of the certificates of a Kafka.
func unrecorded(kafka *kafkav1.Kafka) string {
	if len(kafka.Status.Conditions) == 0 {
		return fmt.Sprintf("The operator has not looked at this Kafka yet: check that it runs and watches namespace %s.", kafka.Namespace)
	}
	return "The operator has recorded nothing about its certificates: the conditions say what stands in the way."
}
