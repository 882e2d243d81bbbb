package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/report"
)

// replacedWithin is how long the replacement of a key may take.
const replacedWithin = time.Minute

// The phases of the load while a key is replaced.
const (
	replacing = "replacing the cluster CA's key"
	nothing   = "nothing happens, for as long as that took"
)

// Series of the agents.
const (
	seriesMountLag = "keyturn_agent_mount_lag_seconds"
	seriesReloaded = `keyturn_agent_reloads_total{outcome="loaded"}`
	seriesFailed   = `keyturn_agent_reloads_total{outcome="failed"}`
	seriesReload   = "keyturn_agent_last_reload_seconds"
)

// replacement measures what it takes to replace the key of the cluster CA, and what
// clients notice of it: against an equally long time in which nothing is replaced, on
// servers that have been warmed up, so that what the machine costs is not counted as the
// replacement's.
func replacement(ctx context.Context, b *bench) (*finding, error) {
	if err := b.kafka.WarmUpFor(ctx, harness.EveryKind(), b.size.exercise); err != nil {
		return nil, err
	}
	opened, err := b.kafka.Target(ctx)
	if err != nil {
		return nil, err
	}
	before, err := b.kafka.AgentMetrics(ctx, opened)
	if err != nil {
		return nil, err
	}
	sampled := &samples{}
	result, took, err := b.replacedUnderLoad(ctx, opened, sampled)
	if err != nil {
		return nil, err
	}
	after, err := b.kafka.AgentMetrics(ctx, opened)
	if err != nil {
		return nil, err
	}
	found := &finding{seen: &result, notes: b.company(ctx), figures: []report.Figure{
		report.AtMost("key of the cluster CA replaced, 3 nodes", took.Seconds(), replacedWithin.Seconds(), "s",
			"from the annotation until the condition says that nothing is left to be done now"),
		report.AtMost("restarts of a key replacement, 3 nodes", float64(restarts(result)), 0, "restarts", "new pods and new containers"),
	}}
	found.figures = append(found.figures, gaps(result)...)
	found.figures = append(found.figures, sampled.figures()...)
	found.figures = append(found.figures, reloads(before, after)...)
	return found, nil
}

// replacedUnderLoad replaces the key while clients work, and lets them work on for as
// long as that took.
func (b *bench) replacedUnderLoad(ctx context.Context, opened *target.Target, sampled *samples) (probe.Result, time.Duration, error) {
	signer, err := b.kafka.Signer(ctx, harness.ClusterCA)
	if err != nil {
		return probe.Result{}, 0, err
	}
	load, err := b.kafka.Load(ctx, harness.EveryKind()...)
	if err != nil {
		return probe.Result{}, 0, err
	}
	stop := load.MarkTrust(ctx, b.kafka, harness.ClusterCA, func(told string, _ harness.Trust) { b.journal.Say("  %s", told) })
	load.SetPhase("before")
	err = harness.Let(ctx, harness.Quiet)
	begun := time.Now()
	if err == nil {
		load.SetPhase(replacing)
		err = b.replaced(ctx, opened, signer.Certificate(), sampled)
	}
	took := time.Since(begun)
	load.SetPhase("after")
	if err == nil {
		err = harness.Let(ctx, harness.Quiet)
	}
	load.SetPhase(nothing)
	if err == nil {
		err = harness.Let(ctx, min(took, b.size.nothing))
	}
	err = errors.Join(err, stop())
	return load.Finish(ctx), took, err
}

func restarts(result probe.Result) int {
	all := 0
	for _, node := range result.Nodes {
		all += node.Restarts
	}
	return all
}

// gaps are what clients noticed of the replacement, and what they notice anyway.
func gaps(result probe.Result) []report.Figure {
	const how = "longest time between two acknowledgements of one client, of all clients"
	return []report.Figure{
		report.Observed("longest gap of a key replacement", harness.LongestGapIn(result, replacing).Seconds(), "s", how),
		report.Observed("longest gap while nothing happens for as long", harness.LongestGapIn(result, nothing).Seconds(), "s", how),
	}
}

// replaced asks for the replacement and samples the agents until it is over.
func (b *bench) replaced(ctx context.Context, opened *target.Target, old *x509.Certificate, sampled *samples) error {
	if err := b.kafka.Replace(ctx, harness.ClusterCA); err != nil {
		return err
	}
	sampling, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sampled.take(sampling, b.kafka, opened) }()
	_, err := b.kafka.UntilTurned(ctx, harness.ClusterCA, []*x509.Certificate{old}, harness.SettledPhases()...)
	cancel()
	if sampling := <-ended; !errors.Is(sampling, context.Canceled) {
		err = errors.Join(err, sampling)
	}
	return err
}

// samples are the longest times that agents told while a rotation went on.
type samples struct {
	lag, reload float64
}

// take asks twice a second: the newest publication and the newest reload hide the
// ones before.
func (s *samples) take(ctx context.Context, kafka harness.Kafka, opened *target.Target) error {
	return harness.Poll(ctx, func() (bool, error) {
		nodes, err := kafka.AgentMetrics(ctx, opened)
		if err != nil {
			return false, ctx.Err() // one sample less
		}
		for _, metrics := range nodes {
			s.lag, s.reload = max(s.lag, metrics[seriesMountLag]), max(s.reload, metrics[seriesReload])
		}
		return false, nil
	})
}

func (s *samples) figures() []report.Figure {
	return []report.Figure{
		report.Observed("longest mount lag of a key replacement", s.lag, "s", seriesMountLag+" of all nodes, twice a second: from the write of a publication until its pod mounts it"),
		report.Observed("longest reload of a key replacement", s.reload, "s", seriesReload+" of all nodes, twice a second: from the mount until handshakes prove it"),
	}
}

// reloads counts those between two looks at the agents.
func reloads(before, after map[string]harness.Metrics) []report.Figure {
	loaded, failed := 0.0, 0.0
	for node, now := range after {
		loaded += now[seriesReloaded] - before[node][seriesReloaded]
		failed += now[seriesFailed] - before[node][seriesFailed]
	}
	how := fmt.Sprintf("%s of all %d nodes", seriesReloaded, len(after))
	return []report.Figure{
		report.Observed("reloads of a key replacement, all nodes", loaded, "reloads", how),
		report.AtMost("reloads that failed in a key replacement", failed, 0, "reloads", how),
	}
}
