package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/rotation"
)

// planOptions are the options of "keyturn plan".
type planOptions struct {
	connect        connector
	replace, renew string
	distrust       bool
	output         string
}

func planCommand(connect connector) *cobra.Command {
	o := &planOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "plan kafka/NAME",
		Short: "Show what a rotation will do, before it does it",
		Long: `Shows the remaining steps of every rotation in progress or, with --replace or --renew,
of one that has not been asked for (with --replace and --distrust: of one because a
key is compromised). For each step it says which nodes are reloaded or restarted and
why, and how long that takes, going by what was measured on this cluster. It says what
blocks the rotation now, which kinds of clients are affected while it runs, and which
need the new CA by when.

It changes nothing. It runs the operator's own decision function to the end, on the
operator's record of what it last decided from, and names what has changed since.`,
		Example: `  kubectl keyturn plan kafka/my-cluster -n kafka --replace cluster-ca
  kubectl keyturn plan kafka/my-cluster -n kafka --replace cluster-ca --distrust
  kubectl keyturn plan kafka/my-cluster -n kafka -o json`,
		Args:              oneKafka,
		PreRunE:           o.check,
		ValidArgsFunction: completeKafka(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.replace, "replace", "", "show what a new key would do; of cluster-ca or clients-ca")
	cmd.Flags().StringVar(&o.renew, "renew", "", "show what a new certificate for the same key would do; of cluster-ca or clients-ca")
	cmd.Flags().BoolVar(&o.distrust, "distrust", false, "with --replace: show what it would do to distrust every other CA certificate at once, because a key is compromised")
	addOutputFlag(cmd, &o.output, outputTable, outputUsage)
	for _, flag := range []string{"replace", "renew"} {
		completeFlag(cmd, flag, cobra.FixedCompletions(domains(), cobra.ShellCompDirectiveNoFileComp))
	}
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
	// Certificates is what the Kafka says of certificates of this authority that are not issued yet.
	Certificates []string `json:"certificates,omitempty"`
	// RecordedAt is when the record last changed, AgeSeconds how long ago that is.
	RecordedAt string `json:"recordedAt"`
	AgeSeconds int64  `json:"ageSeconds"`
}

func (o *planOptions) run(ctx context.Context, resource string, out io.Writer) error {
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
	return show(out, o.output, planText(plan), plan)
}

// check wants a question that can be answered.
func (o *planOptions) check(cmd *cobra.Command, _ []string) error {
	for _, domain := range []string{o.replace, o.renew} {
		if domain != "" && !slices.Contains(domains(), domain) {
			return misused(cmd, fmt.Errorf("%q is not a CA of a Kafka: name %s or %s", domain, string(authorities.Cluster), string(authorities.Clients)))
		}
	}
	if o.replace != "" && o.renew != "" {
		return misused(cmd, errTwoPlans)
	}
	if o.distrust && o.replace == "" {
		return misused(cmd, errDistrustAlone)
	}
	if err := checkOutput(o.output); err != nil {
		return misused(cmd, err)
	}
	return nil
}

// Questions that cannot be answered.
var (
	errDistrustAlone = errors.New("--distrust needs --replace cluster-ca or --replace clients-ca: it asks about a replacement")
	errTwoPlans      = errors.New("--replace and --renew exclude each other: ask about one of them")
)

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
			return report, fmt.Errorf("planning for the %s: %w", called(domain), c.noRecord())
		}
		plan, err := o.domain(ctx, c, kafka, record)
		if err != nil {
			return report, err
		}
		report.Domains = append(report.Domains, plan)
	}
	return report, nil
}

// awaited is what the Kafka says of certificates that are not issued yet. They are all of the cluster CA.
func awaited(kafka *kafkav1.Kafka, domain string) []string {
	if domain != string(authorities.Cluster) {
		return nil
	}
	var said []string
	for _, c := range kafka.Status.Conditions {
		if c.Type == condition.Warning && slices.Contains(controller.AwaitedCertificates(), c.Reason) {
			said = append(said, c.Message)
		}
	}
	return said
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
		plan.Certificates = awaited(kafka, record.Domain)
		return plan, nil
	}
	if caSource(kafka, record.Domain) != authority.Generated {
		return plan, c.ownRefusal(kafka, record.Domain)
	}
	after, err := record.WithChange(change, now)
	if err != nil {
		return plan, err
	}
	plan.Forecast = after.Ahead(now)
	return plan, nil
}
