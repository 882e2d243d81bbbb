package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/rotation"
)

// planOptions are the options of "keyturn plan".
type planOptions struct {
	connect        connector
	replace, renew string
	distrust       bool
	output         string
}

func newPlanCommand() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	cmd := planCommand(kubeconfig(flags))
	flags.AddFlags(cmd.Flags())
	return cmd
}

func planCommand(connect connector) *cobra.Command {
	o := &planOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "plan kafka/NAME",
		Short: "Show what a rotation will do, before it does it",
		Long: `Shows the steps to come of every rotation that is under way, or with --replace
or --renew of one that is not (with --replace and --distrust of a compromised key): which node is reloaded or restarted in each step and
why, how long it takes by what was measured on this cluster, what blocks now, and
which clients would notice.

It changes nothing. It is the operator's own function, played to its end on the
record of what the operator decided from last, and says what has moved since.`,
		Example: `  kubectl keyturn plan kafka/my-cluster -n kafka --replace cluster-ca
  kubectl keyturn plan kafka/my-cluster --replace cluster-ca --distrust
  kubectl keyturn plan kafka/my-cluster --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.replace, "replace", "", "show what a new key would do: of cluster-ca or clients-ca")
	cmd.Flags().StringVar(&o.renew, "renew", "", "show what a new certificate of the same key would do: of cluster-ca or clients-ca")
	cmd.Flags().BoolVar(&o.distrust, "distrust", false, "with --replace: show what distrusting every other CA certificate at once would do, because a key is compromised")
	cmd.Flags().StringVarP(&o.output, "output", "o", outputTable, "table or json")
	cmd.MarkFlagsMutuallyExclusive("replace", "renew")
	return cmd
}

// planReport is what "keyturn plan" says.
type planReport struct {
	Namespace string       `json:"namespace"`
	Cluster   string       `json:"cluster"`
	Domains   []domainPlan `json:"domains"`
}

// domainPlan is the course of one authority.
type domainPlan struct {
	drift
	rotation.Forecast

	Domain string `json:"domain"`
	// If is the change that was asked about; empty for what is under way.
	If string `json:"if,omitempty"`
	// RecordedAt is when the record last changed, AgeSeconds how long ago that is.
	RecordedAt string `json:"recordedAt"`
	AgeSeconds int64  `json:"ageSeconds"`
}

func (o *planOptions) run(ctx context.Context, resource string, out io.Writer) error {
	if err := o.check(); err != nil {
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
	plan, err := o.plan(ctx, c)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		return printJSON(out, plan)
	}
	_, err = io.WriteString(out, planText(plan))
	return err
}

func (o *planOptions) check() error {
	for _, domain := range []string{o.replace, o.renew} {
		if domain != "" && !slices.Contains(domains(), domain) {
			return fmt.Errorf("%q is neither %s nor %s", domain, rotation.ClusterCA, rotation.ClientsCA)
		}
	}
	if o.distrust && o.replace == "" {
		return errDistrustAlone
	}
	return checkOutput(o.output)
}

// errDistrustAlone is a question about distrust that does not name an authority.
var errDistrustAlone = errors.New("--distrust asks about a replacement: say of which CA with --replace cluster-ca or --replace clients-ca")

func checkOutput(output string) error {
	if output != outputTable && output != outputJSON {
		return fmt.Errorf("output %q is neither %s nor %s", output, outputTable, outputJSON)
	}
	return nil
}

func printJSON(out io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding output: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// plan reads the records and plays what was asked about.
func (o *planOptions) plan(ctx context.Context, c cluster) (planReport, error) {
	report := planReport{Namespace: c.namespace, Cluster: c.name, Domains: []domainPlan{}}
	kafka, err := c.kafka(ctx)
	if err != nil {
		return report, err
	}
	records, err := c.records(ctx, kafka)
	if err != nil {
		return report, err
	}
	for _, domain := range o.asked() {
		record, found := records[domain]
		if !found {
			return report, fmt.Errorf("planning for the %s of %s: %w", called(domain), c.name, errNoRecord)
		}
		plan, err := o.domain(ctx, c, kafka, record)
		if err != nil {
			return report, err
		}
		report.Domains = append(report.Domains, plan)
	}
	return report, nil
}

func (o *planOptions) asked() []string {
	switch {
	case o.replace != "":
		return []string{o.replace}
	case o.renew != "":
		return []string{o.renew}
	default:
		return domains()
	}
}

func (o *planOptions) domain(ctx context.Context, c cluster, kafka *kafkav1.Kafka, record rotation.Record) (domainPlan, error) {
	now := c.clock.Now()
	plan := domainPlan{
		Domain: record.Domain, drift: c.since(ctx, record),
		RecordedAt: stamp(record.Snapshot.Now), AgeSeconds: int64(now.Sub(record.Snapshot.Now).Seconds()),
	}
	var change rotation.Change
	switch {
	case o.distrust:
		change, plan.If = rotation.ReplaceCompromised, "replace, distrust"
	case o.replace != "":
		change, plan.If = rotation.Replace, "replace"
	case o.renew != "":
		change, plan.If = rotation.Renew, "renew"
	default:
		plan.Forecast = record.Ahead(now)
		return plan, nil
	}
	if ownCA(kafka, record.Domain) {
		return plan, refuse("the %s of %s is your own (generateCertificateAuthority is false), so its key and certificate are yours to replace: see docs/certificates.md", called(record.Domain), c.name)
	}
	after, err := record.WithChange(change, now)
	if err != nil {
		return plan, err
	}
	plan.Forecast = after.Ahead(now)
	return plan, nil
}
