package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/report"
)

// certificates runs the Go benchmarks of keys and certificates.
func certificates(ctx context.Context, b *bench) (*finding, error) {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchmem", "./internal/pki")
	command.Dir = b.kube.Root
	said, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("running Go benchmarks: %w\n%s", err, said)
	}
	figures, err := parseBenchmarks(said)
	return &finding{figures: figures}, err
}

// parseBenchmarks reads lines such as
// "BenchmarkIssueLeafECDSA-2  7890  151000 ns/op  25000 B/op  320 allocs/op".
func parseBenchmarks(said []byte) ([]report.Figure, error) {
	const how = "go test -bench . -benchmem ./internal/pki"
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
