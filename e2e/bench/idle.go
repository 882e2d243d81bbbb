package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// What an operator with one cluster may take while nothing happens.
const (
	maxResidentMiB = 48
	maxCPUSeconds  = 0.2
	metricsPort    = "8080"
	mebibyte       = 1 << 20
)

// usage is what a process has taken since it began.
type usage struct {
	resident   float64
	cpuSeconds float64
	leader     bool
}

// idle watches the operator while nothing happens.
func idle(ctx context.Context, b *bench) (*finding, error) {
	if err := harness.Let(ctx, b.size.settling); err != nil {
		return nil, err
	}
	log, err := openAudit(ctx, b.kube, operatorUser)
	if err != nil {
		return nil, err
	}
	before, err := b.usages(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := harness.Let(ctx, b.size.idle); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	requests, err := log.since()
	if err != nil {
		return nil, err
	}
	after, err := b.usages(ctx)
	if err != nil {
		return nil, err
	}
	found := &finding{notes: b.company(ctx)}
	for pod, now := range after {
		then, known := before[pod]
		if !known {
			return nil, fmt.Errorf("operator pod %s was not there when the measurement began", pod)
		}
		found.figures = append(found.figures, usageFigures(then, now, took)...)
	}
	figures, notes := requests.figures(took)
	found.figures, found.notes = append(found.figures, figures...), append(found.notes, notes...)
	return found, nil
}

func usageFigures(then, now usage, took time.Duration) []report.Figure {
	const how = "the process's own account of /proc/self (process_resident_memory_bytes, process_cpu_seconds_total), at the end of and over the idle time"
	resident, cpu := now.resident/mebibyte, (now.cpuSeconds-then.cpuSeconds)/took.Minutes()
	if !now.leader {
		return []report.Figure{
			report.Observed("standby operator, resident", resident, "MiB", how),
			report.Observed("standby operator, CPU", cpu, "CPU-s/min", how),
		}
	}
	return []report.Figure{
		report.AtMost("operator with one idle cluster, resident", resident, maxResidentMiB, "MiB", how),
		report.AtMost("operator with one idle cluster, CPU", cpu, maxCPUSeconds, "CPU-s/min", how),
	}
}

// usages asks the operator's pods, through the API server.
func (b *bench) usages(ctx context.Context) (map[string]usage, error) {
	pods, err := b.kube.OperatorPods(ctx)
	if err != nil {
		return nil, err
	}
	return b.usagesOf(ctx, pods)
}

func (b *bench) usagesOf(ctx context.Context, pods []corev1.Pod) (map[string]usage, error) {
	usages := map[string]usage{}
	for i := range pods {
		used, err := b.usage(ctx, &pods[i])
		if err != nil {
			return nil, err
		}
		usages[pods[i].Name] = used
	}
	return usages, nil
}

func (b *bench) usage(ctx context.Context, pod *corev1.Pod) (usage, error) {
	data, err := b.kube.Plain.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, metricsPort, "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return usage{}, fmt.Errorf("reading metrics of %s: %w", pod.Name, err)
	}
	return parseUsage(pod.Name, string(data))
}

// parseUsage reads the few lines that matter of Prometheus' text form.
func parseUsage(pod, metrics string) (usage, error) {
	found, missing := usage{}, []string{"process_resident_memory_bytes", "process_cpu_seconds_total", "leader_election_master_status"}
	for line := range strings.Lines(metrics) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		at := slices.Index(missing, name)
		if at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return usage{}, fmt.Errorf("reading metric %s of %s: %w", name, pod, err)
		}
		missing = slices.Delete(missing, at, at+1)
		switch name {
		case "process_resident_memory_bytes":
			found.resident = value
		case "process_cpu_seconds_total":
			found.cpuSeconds = value
		default:
			found.leader = value == 1
		}
	}
	if len(missing) > 0 {
		return usage{}, fmt.Errorf("metrics of %s have no %s", pod, strings.Join(missing, ", "))
	}
	return found, nil
}
