package main

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// What is promised of etcd clusters.
const (
	etcdNamespace = namespace + "-etcd"
	etcdWithin    = 20 * time.Second
	enrolWithin   = 2 * time.Minute
	maxEtcdMiB    = 256
	answersWithin = 200 * time.Millisecond
)

// etcdReady measures from apply to an etcd cluster of which all members serve.
func etcdReady(ctx context.Context, b *bench) (*finding, error) {
	if err := b.clear(ctx); err != nil {
		return nil, err
	}
	if err := b.install(ctx, withEtcd()); err != nil {
		return nil, err
	}
	if err := b.kube.CreateNamespace(ctx, etcdNamespace); err != nil {
		return nil, err
	}
	etcd := b.etcd()
	begun := time.Now()
	if err := etcd.Create(ctx, b.size.members); err != nil {
		return nil, err
	}
	if err := etcd.UntilReady(ctx); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	return &finding{
		figures: []report.Figure{report.AtMost(fmt.Sprintf("apply to Ready, %d etcd members", b.size.members), took.Seconds(), etcdWithin.Seconds(), "s",
			"from the apply of an EtcdCluster, images present, until a watch shows it Ready with all members voting")},
		notes: b.company(ctx),
	}, b.clear(ctx)
}

func (b *bench) etcd() harness.Etcd {
	return harness.Etcd{Kube: b.kube, Namespace: etcdNamespace, Name: "etcd"}
}

func withEtcd() map[string]any { return map[string]any{"etcd": map[string]any{"enabled": true}} }

// etcdClusters runs the Go benchmark of 100 clusters on an API server of its own.
func etcdClusters(ctx context.Context, b *bench) (*finding, error) {
	figures, err := goBenchmarks(ctx, b, "^BenchmarkHundredClusters$", "./internal/etcd/apitest")
	if err != nil {
		return nil, err
	}
	return &finding{figures: boundedEnrolment(figures)}, nil
}

// boundedEnrolment bounds what one operator takes for 100 clusters of three members.
func boundedEnrolment(figures []report.Figure) []report.Figure {
	var bounded []report.Figure
	for _, figure := range figures {
		how := figure.How + "; agents and etcds are played, and the machine has the API server, too"
		switch figure.Unit {
		case "s-until-enrolled":
			bounded = append(bounded, report.AtMost("100 etcd clusters of 3 members, all Ready", figure.Value, enrolWithin.Seconds(), "s", how))
		case "MiB-resident":
			bounded = append(bounded, report.AtMost("100 etcd clusters, operator and all that is played, resident", figure.Value, maxEtcdMiB, "MiB", how))
		case "writes-at-rest":
			bounded = append(bounded, report.AtMost("100 etcd clusters, writes while nothing changes", figure.Value, 0, "requests", how))
		case "ms-median":
			bounded = append(bounded, report.Observed("50 requests for certificates a second, median", figure.Value, "ms", how))
		case "ms-p99":
			bounded = append(bounded, report.AtMost("50 requests for certificates a second, 99th percentile", figure.Value, report.Milliseconds(answersWithin), "ms",
				how+"; from the patch of kubeEtcdCSR until a watch shows kubeEtcdCert"))
		}
	}
	return bounded
}
