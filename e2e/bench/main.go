// Bench measures what the project promises, on the Kubernetes of $KUBECONFIG, and
// writes out/bench/<name>/report.json for each measurement.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

const (
	namespace = "keyturn-bench"
	cluster   = "my-cluster"
	manifest  = "kafka-dual-role.yaml"
	limit     = 90 * time.Minute
)

func main() {
	idle := flag.Duration("idle", 5*time.Minute, "how long the operator is watched doing nothing")
	isShort := flag.Bool("short", false, "measure little and judge nothing, to see that each measurement works")
	only := flag.String("only", "", "measure only what matches this regular expression; the cluster is made for all but certificates")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	asked := whole(*idle)
	if *isShort {
		asked = short()
	}
	err := run(ctx, os.Stdout, asked, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errMissed is a bench that ran, with a figure that misses its target.
var errMissed = errors.New("some figures miss their target; the table says which")

// measurement is one row or several of the table.
type measurement struct {
	name string
	take func(context.Context, *bench) (*finding, error)
}

// finding is what a measurement found.
type finding struct {
	figures []report.Figure
	notes   []string
	seen    *probe.Result
}

type bench struct {
	journal *harness.Journal
	kube    *harness.Kubernetes
	kafka   harness.Kafka
	size    size
	figures []report.Figure
	// installed are the values of the operator as it is installed.
	installed map[string]any
}

func run(ctx context.Context, out io.Writer, asked size, only string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	selected, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	kube, err := harness.Connect()
	if err != nil {
		return err
	}
	b := &bench{
		journal: harness.NewJournal(out), kube: kube, size: asked,
		kafka: harness.Kafka{Kube: kube, Namespace: namespace, Name: cluster},
	}
	if err := kube.Install(ctx, b.journal); err != nil {
		return err
	}
	if err := b.measure(ctx, selected); err != nil {
		return errors.Join(err, b.kafka.Diagnose(context.WithoutCancel(ctx), kube.Folder("bench", "failed")))
	}
	if err := errors.Join(b.clear(ctx), b.install(ctx, nil)); err != nil {
		return err
	}
	return b.tell(out)
}

func (b *bench) measure(ctx context.Context, selected *regexp.Regexp) error {
	for _, m := range []measurement{
		{"programs", programs},
		{"certificates", certificates},
		{"planner", planner},
		{"neighbours", neighbours},
		{"secrets", strangeSecrets},
		{"ready", ready},
		{"roll", roll},
		{"idle", idle},
		{"replacement", replacement},
		{"reaction", reaction},
		{"users", users},
		{"topics", topics},
		{"issued", issued}, // it takes the place of the cluster, and so do those after it
		{"etcd", etcdReady},
		{"etcd-clusters", etcdClusters},
	} {
		// The cluster of the others is made by measuring how long it takes.
		if m.name != "ready" && !selected.MatchString(m.name) {
			continue
		}
		if err := b.take(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) take(ctx context.Context, m measurement) error {
	summary := report.Report{Name: m.name, StartedAt: time.Now(), Machine: report.Machine()}
	var found *finding
	err := b.journal.Step(m.name, func() error {
		var err error
		found, err = m.take(ctx, b)
		return err
	})
	if err != nil {
		return err
	}
	var seen *timeline.Timeline
	if found.seen != nil {
		summary, seen = found.seen.Report(m.name, report.Machine()), new(found.seen.Timeline(m.name))
	}
	summary.DurationSeconds = time.Since(summary.StartedAt).Seconds()
	for _, figure := range found.figures {
		summary.Figures = append(summary.Figures, b.size.judged(figure))
	}
	summary.Notes = append(summary.Notes, found.notes...)
	summary.Ok = report.Verdict(summary.Figures) && (found.seen == nil || found.seen.Ok())
	b.figures = append(b.figures, summary.Figures...)
	return b.kube.WriteReport("bench", summary, seen)
}

// tell prints the table.
func (b *bench) tell(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFIGURE\tVALUE\tUNIT\tTARGET\t")
	for _, figure := range b.figures {
		verdict := ""
		if !figure.Ok {
			verdict = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.6g\t%s\t%s\t%s\n", figure.Name, figure.Value, figure.Unit, figure.Target, verdict)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	fmt.Fprintf(out, "\nHow each was measured stands in the reports in %s\n", b.kube.Folder("bench", ""))
	if !report.Verdict(b.figures) {
		return errMissed
	}
	return nil
}
