// Demo creates a Kafka cluster, the topic and the application of the examples on the Kubernetes of
// $KUBECONFIG, restarts all nodes while real clients work, replaces the keys of both CAs,
// and reports what clients and the application lost. It ends with an etcd cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
)

const (
	namespace = harness.DemoNamespace
	cluster   = "my-cluster"
	etcd      = "my-etcd"
	manifest  = "kafka-dual-role.yaml"
	// Names of the reports.
	restarts     = "restarts-under-load"
	replacements = "authorities-replaced-under-load"
	limit        = 30 * time.Minute
	// How long a client may wait for an acknowledgement while nodes restart, and
	// while none does.
	maxGapOfRestarts = 3 * time.Second
	maxGap           = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// errFailed is a demo that ran and did not show what it is for.
var errFailed = errors.New("clients lost records or were refused, or what was to go on was restarted; the table says which")

func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	kube, err := harness.Connect()
	if err != nil {
		return err
	}
	d := demo{out: out, journal: harness.NewJournal(out), kube: kube, kafka: harness.Kafka{Kube: kube, Namespace: namespace, Name: cluster}}
	if err := d.show(ctx); err != nil {
		if problem := d.kafka.Diagnose(context.WithoutCancel(ctx), kube.Folder("demo", "failed")); problem != nil {
			err = errors.Join(err, problem)
		}
		return err
	}
	return nil
}

type demo struct {
	out     io.Writer
	journal *harness.Journal
	kube    *harness.Kubernetes
	kafka   harness.Kafka
}

func (d demo) show(ctx context.Context) error {
	values := d.kafka.ApplicationOperators()
	d.withTopics(values)
	values["etcd"] = map[string]any{"enabled": true}
	// The chart gives rights in it, and cannot do so before it exists.
	if err := d.kube.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := d.kube.InstallWith(ctx, d.journal, values); err != nil {
		return err
	}
	for _, begin := range []func(context.Context) error{d.create, d.createTopic, d.startApplication} {
		if err := begin(ctx); err != nil {
			return err
		}
	}
	ok := true
	for _, play := range []func(context.Context) (act, error){d.restart, d.replace} {
		played, err := play(ctx)
		if err != nil {
			return err
		}
		summary := played.summary()
		if err := d.kube.WriteReport("demo", summary, new(played.result.Timeline(summary.Name))); err != nil {
			return err
		}
		if err := d.kube.WriteOverview("demo", summary.Name, played.title, played.result); err != nil {
			return err
		}
		d.tell(played.result, summary)
		ok = ok && summary.Ok
	}
	if err := d.startEtcd(ctx); err != nil {
		return err
	}
	d.farewell()
	if !ok {
		return errFailed
	}
	return nil
}

// startEtcd creates an etcd cluster beside the Kafka cluster.
func (d demo) startEtcd(ctx context.Context) error {
	created := harness.Etcd{Kube: d.kube, Namespace: namespace, Name: etcd}
	return d.journal.Step(fmt.Sprintf("etcd cluster %s with three members, whose keys never leave their pods, is ready", etcd), func() error {
		if err := created.Create(ctx, 3); err != nil {
			return err
		}
		return created.UntilReady(ctx)
	})
}

// act is a part of the demo that was played under clients.
type act struct {
	name string
	// title is what the overview of it says.
	title   string
	result  probe.Result
	figures []report.Figure
}

func (a act) summary() report.Report {
	summary := a.result.Report(a.name, report.Machine())
	summary.Figures = append(summary.Figures, a.figures...)
	summary.Ok = summary.Ok && report.Correct(summary.Figures)
	if slow := report.Slow(summary.Figures); len(slow) > 0 {
		summary.Notes = append(summary.Notes, slowness(slow, report.Busyness()))
	}
	return summary
}

// slowness names the times that missed their bounds, and what the machine was busy with.
// That fails no demo: whoever tries one on a laptop is not alone on it.
func slowness(slow []report.Figure, busyness string) string {
	named := make([]string, 0, len(slow))
	for _, f := range slow {
		named = append(named, fmt.Sprintf("%s: %g %s, to be %s", f.Name, f.Value, f.Unit, f.Target))
	}
	return fmt.Sprintf("it was slow (%s); %s", busyness, strings.Join(named, "; "))
}

// clients starts clients of every kind.
func (d demo) clients(ctx context.Context) (*harness.Load, error) {
	var load *harness.Load
	err := d.journal.Step("clients of every kind produce, consume, and open a new connection to every node each second", func() error {
		var err error
		load, err = d.kafka.Load(ctx, harness.EveryKind()...)
		return err
	})
	return load, err
}

// create takes a cluster that an earlier demo left.
func (d demo) create(ctx context.Context) error {
	objects, err := d.kube.Example(manifest)
	if err != nil {
		return err
	}
	return d.journal.Step(fmt.Sprintf("Kafka cluster %s of examples/%s is ready in namespace %s", cluster, manifest, namespace), func() error {
		if err := d.kube.CreateNamespace(ctx, namespace); err != nil {
			return err
		}
		if err := d.kube.Apply(ctx, namespace, objects); err != nil {
			return err
		}
		return d.kafka.UntilSettled(ctx)
	})
}

// restart restarts all nodes while clients of every kind work.
func (d demo) restart(ctx context.Context) (act, error) {
	load, err := d.clients(ctx)
	if err != nil {
		return act{}, err
	}
	begun := time.Now()
	err = d.journal.Step("all nodes were restarted, one after the other", func() error {
		load.SetPhase("before")
		if err := harness.Let(ctx, harness.Quiet); err != nil {
			return err
		}
		load.SetPhase("restarting")
		begun = time.Now()
		return d.roll(ctx)
	})
	rolled := time.Since(begun)
	load.SetPhase("after")
	if err == nil {
		err = harness.Let(ctx, harness.Quiet)
	}
	result := load.Finish(ctx)
	return act{name: restarts, title: "All nodes restarted under load", result: result, figures: []report.Figure{
		harness.GapFigure(result, maxGapOfRestarts),
		report.Observed("all nodes restarted", rolled.Seconds(), "s", "from the request by annotation until the Kafka is Ready and nothing is left to restart"),
	}}, err
}

// roll says when each node is back.
func (d demo) roll(ctx context.Context) error {
	before, err := d.kafka.Pods(ctx)
	if err != nil {
		return err
	}
	if err := d.kafka.RequestRoll(ctx); err != nil {
		return err
	}
	back := map[string]bool{}
	err = d.kafka.UntilPods(ctx, "are replaced", func(pods map[string]*corev1.Pod) bool {
		for _, pod := range before.Names() {
			if !back[pod] && harness.Replaced(pods[pod], before[pod]) {
				back[pod] = true
				d.journal.Say("  %s is back", pod)
			}
		}
		return len(back) == len(before)
	})
	if err != nil {
		return err
	}
	return d.kafka.UntilSettled(ctx)
}

// tell prints what a person takes away.
func (d demo) tell(result probe.Result, summary report.Report) {
	verdict := "OK: nothing was lost and nobody was refused"
	switch {
	case !summary.Ok:
		verdict = "FAILED"
	case len(report.Slow(summary.Figures)) > 0:
		verdict += ", but it took longer than on a machine of its own"
	}
	fmt.Fprintf(d.out, "\n%s\n%s\n\n", probe.Table(result.Snapshot), verdict)
	for _, note := range summary.Notes {
		fmt.Fprintf(d.out, "note: %s\n", note)
	}
	fmt.Fprintf(d.out, "The report and pictures of it, overview.svg and timeline.svg, are in %s\n\n", d.kube.Folder("demo", summary.Name))
}

// farewell says what a person can do with what is left.
func (d demo) farewell() {
	fmt.Fprintf(d.out, `The cluster keeps running. Look at it:
  export KUBECONFIG=%[1]s
  kubectl get kafka,kafkanodepool,kafkauser,kafkaaccess,etcdcluster,pods --namespace %[2]s    (on the bed: go run -C bed . kubectl …)
  bin/kubectl-keyturn status kafka/%[3]s --namespace %[2]s
  bin/kubectl-keyturn status etcd/%[5]s --namespace %[2]s
  kubectl logs deployment/%[4]s --namespace %[2]s
  bin/kubectl-keyturn probe kafka/%[3]s --namespace %[2]s --kinds pinned,all-crt,plain
Take it away:
  kubectl delete namespace %[2]s    and, if it is the bed: make bed-down
`, os.Getenv(harness.KubeconfigVariable), namespace, cluster, applicationName, etcd)
}
