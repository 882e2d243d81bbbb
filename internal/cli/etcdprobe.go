package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	etcdmodel "github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
	"github.com/keyturn/keyturn/internal/probe/members"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/report"
)

// errWhichAccess is a probe of etcd without credentials.
var errWhichAccess = errors.New("specify --access with an EtcdAccess of the namespace: the probe connects with its Secret")

// errEtcdProbeHarmed is a probe that ran and found clients of etcd harmed.
var errEtcdProbeHarmed = errors.New("writes failed, a key has a wrong history, or connections were refused: the account above says which")

// errNoVoter is a cluster that nothing can be written to.
var errNoVoter = errors.New("it has no member that votes")

// etcdProbeReport is the account of a probe of an EtcdCluster.
type etcdProbeReport struct {
	Namespace string  `json:"namespace"`
	Cluster   string  `json:"cluster"`
	Access    string  `json:"access"`
	Seconds   float64 `json:"seconds"`
	Ok        bool    `json:"ok"`
	// Writes were acknowledged, Failed were not within ten seconds, and Retries are the attempts after the first of each.
	Writes  uint64 `json:"writes"`
	Failed  uint64 `json:"failed"`
	Retries uint64 `json:"retries"`
	// Reads have answers, and Unread have none.
	Reads  uint64 `json:"reads"`
	Unread uint64 `json:"unread"`
	Keys   int    `json:"keys"`
	// StallSeconds is the longest time without an acknowledged write of any writer.
	StallSeconds float64 `json:"stallSeconds"`
	// Problems are keys whose history no register has, or that could not be read at the end.
	Problems []string `json:"problems,omitempty"`
	// Connections are counted by who opened them, and to which member.
	Connections []report.Handshakes `json:"connections"`
	// Refused are the reasons of refused connections, with their counts.
	Refused map[string]int `json:"refused,omitempty"`
}

// probeEtcd runs writers and readers against an EtcdCluster until the duration has passed or a person ends it.
func (o *probeOptions) probeEtcd(ctx context.Context, c etcdCluster, out io.Writer) error {
	output := o.format(out)
	// The account is given after ctrl-c, too, so that what follows outlives ctx.
	live, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	options, voters, err := o.etcdOptions(live, c)
	if err != nil {
		return err
	}
	if err := etcdload.Try(ctx, options); err != nil {
		return fmt.Errorf("probing %s: %w", c, err)
	}
	load, err := etcdload.Start(live, options)
	if err != nil {
		return fmt.Errorf("probing %s: %w", c, err)
	}
	begun, observer := o.clock.Now(), voters.Observe(live, o.clock, c.client)
	err = voters.OnChange(load.SetEndpoints)
	o.waitFor(ctx)
	result := load.Finish(live)
	err = errors.Join(err, etcdload.Remove(live, options))
	account := etcdAccount(c, o.access, result, o.clock.Since(begun))
	return errors.Join(show(out, output, etcdAccountText(account), account), o.writeEtcd(c, begun, account, result, observer.Logs()), err, account.judged())
}

// etcdOptions are what clients connect with, and the members of the cluster.
func (o *probeOptions) etcdOptions(live context.Context, c etcdCluster) (etcdload.Options, *members.Members, error) {
	secret, err := c.accessSecret(live, o.access)
	if err != nil {
		return etcdload.Options{}, nil, err
	}
	config, err := o.config.loader().ClientConfig()
	if err != nil {
		return etcdload.Options{}, nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		return etcdload.Options{}, nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	voters, err := members.Follow(live, plain, config, etcdmodel.Names{Namespace: c.namespace, Cluster: c.name})
	if err != nil {
		return etcdload.Options{}, nil, err
	}
	options := etcdload.Defaults(o.clock)
	options.Endpoints, options.Dial = voters.Endpoints(), voters.Dial
	if len(options.Endpoints) == 0 {
		return etcdload.Options{}, nil, fmt.Errorf("probing %s: %w", c, errNoVoter)
	}
	options.Prefix = "keyturn-probe/" + strconv.FormatInt(o.clock.Now().UnixMilli(), 36)
	options.TLS = members.Application(func() (*corev1.Secret, error) {
		stored := &corev1.Secret{}
		err := c.client.Get(live, secret, stored)
		return stored, err
	})
	return options, voters, nil
}

// accessSecret is the Secret of an EtcdAccess to the cluster.
func (c etcdCluster) accessSecret(ctx context.Context, name string) (types.NamespacedName, error) {
	access := &keyturnv1alpha1.EtcdAccess{}
	if err := c.client.Get(ctx, c.key(name), access); err != nil {
		if apierrors.IsNotFound(err) {
			return types.NamespacedName{}, refuse("there is no EtcdAccess %s in namespace %s", name, c.namespace)
		}
		return types.NamespacedName{}, withRights(fmt.Errorf("reading EtcdAccess %s/%s: %w", c.namespace, name, err), "get etcdaccesses.keyturn.dev and secrets")
	}
	of := access.Spec.Cluster
	if of.Name != c.name || of.Namespace != "" && of.Namespace != c.namespace {
		return types.NamespacedName{}, refuse("EtcdAccess %s is one to EtcdCluster %s, and not to %s", name, of.Name, c)
	}
	if access.Status.Binding == nil {
		return types.NamespacedName{}, refuse("EtcdAccess %s has no Secret yet: %s", name, readyMessage(access.Status.Conditions))
	}
	if access.Spec.Request != "" {
		return types.NamespacedName{}, refuse("the key of EtcdAccess %s is its application's own: name one without spec.request", name)
	}
	return c.key(access.Status.Binding.Name), nil
}

// readyMessage is what the condition Ready says.
func readyMessage(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, keyturnv1alpha1.ConditionReady); ready != nil {
		return ready.Message
	}
	return "no operator has reconciled it"
}

func etcdAccount(c etcdCluster, access string, result etcdload.Result, took time.Duration) etcdProbeReport {
	account := etcdProbeReport{
		Namespace: c.namespace, Cluster: c.name, Access: access, Seconds: took.Round(time.Second / 10).Seconds(),
		Ok:     result.Ok(),
		Writes: result.Writes, Failed: result.Failed, Retries: result.Retries, Reads: result.Reads, Unread: result.Unread, Keys: result.Keys,
		StallSeconds: result.Stall.Length.Round(time.Millisecond).Seconds(), Problems: result.Problems, Connections: result.Connections, Refused: map[string]int{},
	}
	for reason, count := range result.Reasons() {
		account.Refused[string(reason)] = count
	}
	return account
}

// judged is what an account means for who asked for it.
func (r etcdProbeReport) judged() error {
	if r.Ok {
		return nil
	}
	return errEtcdProbeHarmed
}

// etcdAccountText renders an account for people.
func etcdAccountText(r etcdProbeReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s (namespace %s): %d writers and %d readers with EtcdAccess %s for %s\n\n", etcdPrefix, r.Cluster, r.Namespace, etcdload.Writers, etcdload.Readers, r.Access,
		ago(time.Duration(r.Seconds*float64(time.Second))))
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "WRITES\tFAILED\tRETRIES\tREADS\tUNREAD\tKEYS\tWRONG\tSTALL") // a strings.Builder takes everything
	_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.2fs\n\n", r.Writes, r.Failed, r.Retries, r.Reads, r.Unread, r.Keys, len(r.Problems), r.StallSeconds)
	_, _ = fmt.Fprintln(table, "CONNECTIONS\tMEMBER\tACCEPTED\tREFUSED\tBROKEN OFF\tDOWN")
	for _, count := range r.Connections {
		member, _, _ := strings.Cut(count.Node, ".")
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", count.Who, member, count.Accepted, count.Refused, count.Interrupted, count.Unreachable)
	}
	_ = table.Flush()
	for _, reason := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(&b, "refused: %d with %s\n", r.Refused[reason], reason)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&b, "wrong: %s\n", said(problem))
	}
	verdict := "OK: no write failed, and no connection was refused"
	if !r.Ok {
		verdict = "HARMED: see above"
	}
	return trimmed(b.String()) + "\n" + verdict + "\n"
}

// writeEtcd leaves report and picture behind, if a person asked for one.
func (o *probeOptions) writeEtcd(c etcdCluster, begun time.Time, account etcdProbeReport, result etcdload.Result, members []observe.Log) error {
	if o.report == "" {
		return nil
	}
	picture, err := o.draw(result.Timeline(c.String(), members))
	if err != nil {
		return err
	}
	restarts := map[string]int{}
	for _, member := range members {
		restarts[member.Node] = member.Restarts
	}
	return report.Write(o.report, report.Report{
		Name: "probe/" + c.name, Ok: account.Ok, StartedAt: begun, DurationSeconds: account.Seconds, Machine: report.Machine(),
		Figures: result.Figures(), Clients: []report.Client{result.Client()}, Handshakes: result.Connections, Restarts: restarts, Notes: account.Problems,
	}, picture)
}
