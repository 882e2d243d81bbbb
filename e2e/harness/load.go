package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/picture"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// EveryKind is a client of every kind, on the listeners of the examples.
func EveryKind() []string {
	return []string{
		probe.KindPinned + "@tls", probe.KindBundle + "@tls", probe.KindFirst + "@tls", probe.KindAll + "@tls",
		probe.KindMTLS + "@mtls", probe.KindReissued + "@mtls", probe.KindSCRAM + "@scram", probe.KindPlain + "@plain",
	}
}

// Load is a running probe.
type Load struct {
	*probe.Probe

	cancel context.CancelFunc
}

// Target opens the cluster as its clients see it, until ctx ends.
func (k Kafka) Target(ctx context.Context) (*target.Target, error) {
	return target.Open(ctx, k.Kube.Config, reach.Names{Namespace: k.Namespace, Cluster: k.Name}, reach.Auto)
}

// Load starts clients of the kinds.
func (k Kafka) Load(ctx context.Context, kinds ...string) (*Load, error) {
	return k.LoadWith(ctx, kinds, func(*probe.Options) {})
}

// LoadWith starts clients of the kinds, with options that the caller changes.
func (k Kafka) LoadWith(ctx context.Context, kinds []string, change func(*probe.Options)) (*Load, error) {
	if err := comeFirst(); err != nil {
		return nil, err
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	load, err := k.load(ctx, live, kinds, change)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting clients of Kafka %s: %w", k.Name, err)
	}
	load.cancel = cancel
	return load, nil
}

func (k Kafka) load(ctx, live context.Context, kinds []string, change func(*probe.Options)) (*Load, error) {
	opened, err := k.Target(live)
	if err != nil {
		return nil, err
	}
	options, err := opened.Options(ctx, target.Request{
		Run: strconv.FormatInt(time.Now().UnixMilli(), 36), Kinds: kinds, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	change(&options)
	running, err := probe.Start(live, options)
	if err != nil {
		return nil, err
	}
	return &Load{Probe: running}, nil
}

// Finish ends the clients and gives their account.
func (l *Load) Finish(ctx context.Context) probe.Result {
	defer l.cancel()
	return l.Stop(context.WithoutCancel(ctx))
}

// Exercise is how long warmed-up servers have worked, and exerciseInterval how often
// each of their clients sends. A server compiles what it does often, which takes most of
// a small machine in its first minutes; clients that send a lot make that a matter of
// seconds.
const (
	Exercise         = 30 * time.Second
	exerciseInterval = 5 * time.Millisecond
	exerciseConnects = 300 * time.Millisecond
)

// WarmUp lets servers that were just started work until they have compiled most of what
// clients ask of them, as servers in production have long since.
func (k Kafka) WarmUp(ctx context.Context, kinds []string) error {
	return k.WarmUpFor(ctx, kinds, Exercise)
}

// WarmUpFor is WarmUp for another time than Exercise.
func (k Kafka) WarmUpFor(ctx context.Context, kinds []string, exercise time.Duration) error {
	load, err := k.LoadWith(ctx, kinds, func(options *probe.Options) {
		options.Interval, options.HandshakeInterval = exerciseInterval, exerciseConnects
	})
	if err != nil {
		return err
	}
	defer load.Finish(ctx)
	return Let(ctx, exercise)
}

// Quiet is how long clients run before and after what they are to witness.
const Quiet = 5 * time.Second

// Let lets clients run for a while: it is time that a picture shows, and nothing
// waits for it.
func Let(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Folder is where the report of something goes.
func (k *Kubernetes) Folder(kind, name string) string {
	return filepath.Join(k.Root, "out", kind, filepath.FromSlash(name))
}

// WriteReport writes a report. If there were clients, it has the picture of what they
// saw, with the verdict of the report, and says whether they went first.
func (k *Kubernetes) WriteReport(kind string, summary report.Report, seen *timeline.Timeline) error {
	var drawn report.Picture
	if seen != nil {
		went, err := precedence()
		if err != nil {
			return err
		}
		summary.Notes = append(summary.Notes, went)
		line := *seen
		line.Ok = summary.Ok
		drawn, err = picture.Render(line)
		if err != nil {
			return fmt.Errorf("drawing the time line of %s: %w", summary.Name, err)
		}
	}
	return report.Write(k.Folder(kind, summary.Name), summary, drawn)
}

// WriteOverview draws a run on one screen, beside its report.
func (k *Kubernetes) WriteOverview(kind, name, title string, seen probe.Result) error {
	drawn, err := picture.Render(seen.Overview(title))
	if err != nil {
		return fmt.Errorf("drawing the overview of %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(k.Folder(kind, name), "overview.svg"), drawn, 0o600); err != nil {
		return fmt.Errorf("writing the overview of %s: %w", name, err)
	}
	return nil
}
