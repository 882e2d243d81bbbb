package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/report"
)

// certificates runs the Go benchmarks of keys and certificates.
func certificates(ctx context.Context, b *bench) (*finding, error) {
	figures, err := goBenchmarks(ctx, b, ".", "./internal/pki")
	return &finding{figures: figures}, err
}

// maxDecision is how long one decision about trust may take in a cluster of 300
// nodes, which is what the benchmark has.
const maxDecision = time.Millisecond

// planner runs the Go benchmark of the decision about trust.
func planner(ctx context.Context, b *bench) (*finding, error) {
	figures, err := goBenchmarks(ctx, b, "^BenchmarkDecide$", "./internal/trust")
	if err != nil {
		return nil, err
	}
	for i, figure := range figures {
		if figure.Unit == "ns/op" {
			figures[i] = report.AtMost("decision about trust, 300 nodes", figure.Value, float64(maxDecision.Nanoseconds()), figure.Unit,
				figure.How+"; in the middle of a replacement")
		}
	}
	return &finding{figures: figures}, nil
}

// maxBeside is how much longer a rotation may take beside clusters that are not prompt.
const maxBeside = 1.5

// neighbours runs the Go benchmark of a rotation beside clusters that are not prompt.
func neighbours(ctx context.Context, b *bench) (*finding, error) {
	figures, err := goBenchmarks(ctx, b, "^BenchmarkRotationBesideClustersThatAreNotPrompt$", "./internal/kafka/controller")
	if err != nil {
		return nil, err
	}
	return &finding{figures: boundedRotations(figures)}, nil
}

// boundedRotations bounds how long a rotation takes, whatever its neighbours are like.
func boundedRotations(figures []report.Figure) []report.Figure {
	for i, figure := range figures {
		if figure.Unit == "times-as-long" {
			_, theirs, _ := strings.Cut(figure.Name, "/")
			figures[i] = report.AtMost("rotation beside 50 clusters, "+strings.ReplaceAll(theirs, "_", " "), figure.Value, maxBeside, figure.Unit,
				figure.How+"; against one alone, on a fake API server")
		}
	}
	return figures
}

// maxStrange is how much more memory, in KiB, the operator's cache may take beside Secrets that
// are no cluster's, or that are of its users.
const maxStrange = 2 << 10

// strangeSecrets runs the Go benchmark of the cache beside Secrets that it must not hold.
func strangeSecrets(ctx context.Context, b *bench) (*finding, error) {
	figures, err := goBenchmarks(ctx, b, "^BenchmarkCacheBesideSecrets$", "./internal/kafka/controller")
	if err != nil {
		return nil, err
	}
	return &finding{figures: boundedCache(figures)}, nil
}

// boundedCache bounds what the cache takes, whosever the Secrets are.
func boundedCache(figures []report.Figure) []report.Figure {
	for i, figure := range figures {
		if figure.Unit == "KiB" {
			_, whose, _ := strings.Cut(figure.Name, "/")
			figures[i] = report.AtMost("cache beside 10,000 Secrets of "+whose, figure.Value, maxStrange, figure.Unit,
				figure.How+"; of 100 KiB each, against none, on a fake API server")
		}
	}
	return figures
}

func goBenchmarks(ctx context.Context, b *bench, pattern, folder string) ([]report.Figure, error) {
	arguments := slices.Concat([]string{"test", "-run", "^$", "-bench", pattern, "-benchmem"}, b.size.benchmarks, []string{folder})
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = b.kube.Root
	said, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running Go benchmarks: %w\n%s", err, said)
	}
	return parseBenchmarks(said, folder)
}

// parseBenchmarks reads lines such as
// "BenchmarkIssueLeafECDSA-2  7890  151000 ns/op  25000 B/op  320 allocs/op".
func parseBenchmarks(said []byte, folder string) ([]report.Figure, error) {
	how := "go test -bench . -benchmem " + folder
	var figures []report.Figure
	lines := bufio.NewScanner(bytes.NewReader(said))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
			figures = append(figures, report.Observed(name, value, fields[i+1], how))
		}
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("no benchmark in %q", said)
	}
	return figures, nil
}
