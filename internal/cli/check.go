package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/internal/cli/check"
)

// checkName is how the command is called.
const checkName = "check"

// checkOptions are the options of "kubectl keyturn check".
type checkOptions struct {
	connect connector
	output  string
	within  period
	all     bool
}

func checkCommand(connect connector) *cobra.Command {
	o := &checkOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   checkName + " [kafka/NAME | etcd/NAME]",
		Short: "Check that clusters are ready and that no certificate expires soon",
		Long: `Reads what status reads, of one cluster or of all clusters in the namespace, and prints
one line for each finding: a cluster that is not ready or has no status, a rotation that
is blocked, a certificate that has expired, and one that should have been renewed.

A certificate that is renewed by itself is a finding a day after it was due for renewal,
or when it expires within --fail-within. One that its owner has to renew is a finding
within --fail-within, and without that flag within the renewal time of its CA.

Exit codes:
  0  every cluster is ready, and no certificate expires within the time
  1  a cluster could not be asked, and nothing worse was found
  4  a certificate has expired, expires within the time, or was not renewed when it was due
  5  a cluster is not ready or has no status, or a rotation is blocked
  6  usage error`,
		Example: `  kubectl keyturn check kafka/my-cluster -n kafka
  kubectl keyturn check -n kafka --fail-within 14d
  kubectl keyturn check --all-namespaces -o json`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
		},
		ValidArgsFunction: completeInNamespace(connect, &o.all),
	}
	addOutputFlag(cmd, &o.output, outputTable, outputUsage)
	cmd.Flags().Var(&o.within, "fail-within", "time within which no certificate may expire, for example 30d or 12h (default: the renewal time of each certificate)")
	completeFlag(cmd, "fail-within", cobra.FixedCompletions([]string{"7d", "14d", "30d", "90d"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "check every cluster in every namespace")
	return cmd
}

// period is a time on the command line, in days or hours.
type period time.Duration

// Set implements pflag.Value.
func (p *period) Set(text string) error {
	parsed, err := check.ParsePeriod(text)
	*p = period(parsed)
	return err
}

// Type implements pflag.Value.
func (p *period) Type() string { return "duration" }

// String implements pflag.Value. Without a value there is no default to show.
func (p *period) String() string {
	if *p == 0 {
		return ""
	}
	return check.Period(time.Duration(*p))
}

// errOneOrEach is a check of one cluster and of all.
var errOneOrEach = errors.New("specify either one cluster or --all-namespaces, and not both")

func (o *checkOptions) arguments(cmd *cobra.Command, args []string) error {
	if err := checkOutput(o.output); err != nil {
		return misused(cmd, err)
	}
	switch {
	case o.all && len(args) > 0:
		return misused(cmd, errOneOrEach)
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return misused(cmd, fmt.Errorf("unexpected argument %q: specify one kafka/NAME or etcd/NAME", args[1]))
	default:
		return oneCluster(cmd, args)
	}
}

// findingsError is a check that did not pass.
type findingsError struct {
	sentence string
	code     int
}

func (e findingsError) Error() string { return e.sentence }

// verdictError is what a verdict means for the shell; nil of a check that passed.
func verdictError(verdict check.Verdict) error {
	switch verdict {
	case check.ClusterNotReady:
		return findingsError{"the check failed: a cluster is not ready, or a rotation is blocked", exitNotReady}
	case check.CertificateExpires:
		return findingsError{"the check failed: a certificate has expired, expires too soon, or was not renewed when it was due", exitExpires}
	case check.Unknown:
		return findingsError{"it is not known whether all certificates are valid: the findings name what could not be read", exitFailed}
	case check.Passed:
	}
	return nil
}

// checkReport is what "kubectl keyturn check" says.
type checkReport struct {
	At string `json:"at"`
	// FailWithinSeconds is what --fail-within asks for; missing without it.
	FailWithinSeconds int64           `json:"failWithinSeconds,omitempty"`
	Verdict           check.Verdict   `json:"verdict"`
	Checked           []checkedObject `json:"checked"`
	// NotChecked says which kinds of clusters were left out, and why.
	NotChecked []string        `json:"notChecked,omitempty"`
	Findings   []check.Finding `json:"findings"`
}

// checkedObject is a cluster that was checked.
type checkedObject struct {
	Namespace string `json:"namespace"`
	Object    string `json:"object"`
}

func (o *checkOptions) run(ctx context.Context, args []string, out io.Writer) error {
	connection, err := o.connect()
	if err != nil {
		return err
	}
	seen, err := o.look(ctx, connection, args)
	if err != nil {
		return err
	}
	report := o.judge(seen, connection.clock.Now())
	return errors.Join(show(out, o.output, checkText(report, time.Duration(o.within)), report), verdictError(report.Verdict))
}

// look reads what is named, or all that there is.
func (o *checkOptions) look(ctx context.Context, c connection, args []string) (survey, error) {
	switch {
	case o.all:
		return c.survey(ctx, everyNamespace)
	case len(args) == 0:
		return c.survey(ctx, c.namespace)
	}
	if name, is := strings.CutPrefix(args[0], etcdPrefix); is {
		return c.etcdSurvey(ctx, name)
	}
	return c.kafkaSurvey(ctx, args[0])
}

func (o *checkOptions) judge(seen survey, now time.Time) checkReport {
	report := checkReport{
		At: stamp(now), FailWithinSeconds: int64(time.Duration(o.within).Seconds()), NotChecked: seen.notChecked,
		Checked: []checkedObject{}, Findings: []check.Finding{},
	}
	for i := range seen.snapshots {
		s := &seen.snapshots[i]
		report.Checked = append(report.Checked, checkedObject{Namespace: s.Namespace, Object: s.Object})
		report.Findings = append(report.Findings, check.Decide(*s, check.Question{Now: now, Within: time.Duration(o.within)})...)
	}
	report.Verdict = check.VerdictOf(report.Findings)
	return report
}
