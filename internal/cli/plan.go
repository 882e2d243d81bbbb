package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	// operatorNamespace has the records of etcd clusters.
	operatorNamespace string
}

func planCommand(connect connector) *cobra.Command {
	o := &planOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "plan (kafka/NAME | etcd/NAME)",
		Short: "Show what a rotation will do, before it does it",
		Long: `Shows the remaining steps of every rotation in progress or, with --replace or --renew,
of one that has not been asked for (with --replace and --distrust: of one because a
key is compromised). For each step it says which nodes are reloaded or restarted and
why, and how long that takes, going by what was measured on this cluster. It says what
blocks the rotation now, which kinds of clients are affected while it runs, and which
need the new CA by when.

It changes nothing. It runs the operator's own decision function to the end, on the
operator's record of what it last decided from, and names what has changed since.

The record of an etcd cluster is in the namespace of the operator (--operator-namespace).
When both CAs of etcd are replaced together, each member is restarted once for both.`,
		Example: `  kubectl keyturn plan kafka/my-cluster -n kafka --replace cluster-ca
  kubectl keyturn plan kafka/my-cluster -n kafka --replace cluster-ca --distrust
  kubectl keyturn plan kafka/my-cluster -n kafka -o json
  kubectl keyturn plan etcd/my-cluster -n etcd --replace client-ca`,
		Args:              oneCluster,
		PreRunE:           o.check,
		ValidArgsFunction: completeKafka(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.replace, "replace", "", "show what a new key would do; of cluster-ca or clients-ca of Kafka, or of client-ca or peer-ca of etcd")
	cmd.Flags().StringVar(&o.renew, "renew", "", "show what a new certificate for the same key would do; of the same CAs")
	cmd.Flags().BoolVar(&o.distrust, "distrust", false, "with --replace: show what it would do to distrust every other CA certificate at once, because a key is compromised")
	addOperatorNamespaceFlag(cmd, &o.operatorNamespace, "which has the records")
	addOutputFlag(cmd, &o.output, outputTable, outputUsage)
	for _, flag := range []string{"replace", "renew"} {
		completeFlag(cmd, flag, completeDomain)
	}
	cmd.MarkFlagsMutuallyExclusive("replace", "renew")
	return cmd
}

// completeDomain offers the CAs of the cluster that is named.
func completeDomain(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if isOfEtcd(args) {
		return etcdDomains(), cobra.ShellCompDirectiveNoFileComp
	}
	return domains(), cobra.ShellCompDirectiveNoFileComp
}

// planReport is what "keyturn plan" says.
type planReport struct {
	Namespace string       `json:"namespace"`
	Cluster   string       `json:"cluster"`
	Domains   []domainPlan `json:"domains"`

	// of is the cluster as people name it to a command.
	of string
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

	words *rotation.Words
}

func (o *planOptions) run(ctx context.Context, resource string, out io.Writer) error {
	connection, err := o.connect()
	if err != nil {
		return err
	}
	plan, err := o.planFor(ctx, connection, resource)
	if err != nil {
		return err
	}
	return show(out, o.output, planText(plan), plan)
}

// planFor plans for the cluster that is named.
func (o *planOptions) planFor(ctx context.Context, connection connection, resource string) (planReport, error) {
	if name, is := strings.CutPrefix(resource, etcdPrefix); is {
		return o.planEtcd(ctx, etcdCluster{connection, name})
	}
	c, err := connection.cluster(resource)
	if err != nil {
		return planReport{}, err
	}
	return o.plan(ctx, c)
}

// check wants a question that can be answered.
func (o *planOptions) check(cmd *cobra.Command, args []string) error {
	kind, known := "a Kafka", domains()
	if isOfEtcd(args) {
		kind, known = "an etcd cluster", etcdDomains()
	}
	for _, domain := range []string{o.replace, o.renew} {
		if domain != "" && !slices.Contains(known, domain) {
			return misused(cmd, fmt.Errorf("%q is not a CA of %s: name %s", domain, kind, strings.Join(known, " or ")))
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
	errDistrustAlone = errors.New("--distrust needs --replace with a CA: it asks about a replacement")
	errTwoPlans      = errors.New("--replace and --renew exclude each other: ask about one of them")
)

// plan reads the records and plays what was asked about.
func (o *planOptions) plan(ctx context.Context, c cluster) (planReport, error) {
	report := planReport{Namespace: c.namespace, Cluster: c.name, Domains: []domainPlan{}, of: c.String()}
	kafka, err := c.kafka(ctx)
	if err != nil {
		return report, err
	}
	records, err := c.records(ctx, kafka)
	if err != nil {
		return report, err
	}
	for _, domain := range o.asked(domains()) {
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

// asked are the domains of those known that a plan is asked for.
func (o *planOptions) asked(known []string) []string {
	switch {
	case o.replace != "":
		return []string{o.replace}
	case o.renew != "":
		return []string{o.renew}
	default:
		return known
	}
}

// change is what is asked about, in words, too; empty where nothing is.
func (o *planOptions) change() (rotation.Change, string) {
	switch {
	case o.distrust:
		return rotation.ReplaceCompromised, "replace, distrust"
	case o.renew != "":
		return rotation.Renew, "renew"
	case o.replace != "":
		return rotation.Replace, "replace"
	default:
		return rotation.Replace, ""
	}
}

// domain plans for one CA of a Kafka.
func (o *planOptions) domain(ctx context.Context, c cluster, kafka *kafkav1.Kafka, record rotation.Record) (domainPlan, error) {
	if _, asked := o.change(); asked != "" && caSource(kafka, record.Domain) != authority.Generated {
		return domainPlan{}, c.ownRefusal(kafka, record.Domain)
	}
	plan, err := o.course(record, c.clock.Now())
	plan.drift = c.since(ctx, record, c.versions(ctx))
	if plan.If == "" {
		plan.Certificates = awaited(kafka, record.Domain)
	}
	return plan, err
}

// course plays what was asked about on the record of a CA.
func (o *planOptions) course(record rotation.Record, now time.Time) (domainPlan, error) {
	plan := domainPlan{
		Domain: record.Domain, words: record.Words,
		RecordedAt: stamp(record.Snapshot.Now), AgeSeconds: int64(now.Sub(record.Snapshot.Now).Seconds()),
	}
	change, asked := o.change()
	if asked == "" {
		plan.Forecast = record.Ahead(now)
		return plan, nil
	}
	after, err := record.WithChange(change, now)
	if err != nil {
		return plan, err
	}
	plan.If, plan.Forecast = asked, after.Ahead(now)
	return plan, nil
}
