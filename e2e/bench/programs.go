package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// What the programs may take on a disk. Every Kafka and etcd pod has the agent.
const (
	maxProgramMiB = 62
	maxAgentMiB   = 18
)

// programs measures the programs of the image.
func programs(_ context.Context, b *bench) (*finding, error) {
	figures, err := sizes(filepath.Join(b.kube.Root, "bin"))
	return &finding{figures: figures}, err
}

// sizes bounds each program in the folder.
func sizes(folder string) ([]report.Figure, error) {
	bounds := map[string]float64{harness.OperatorProgram: maxProgramMiB, harness.AgentProgram: maxAgentMiB}
	figures := make([]report.Figure, 0, len(bounds))
	for _, program := range harness.Programs() {
		info, err := os.Stat(filepath.Join(folder, program))
		if err != nil {
			return nil, fmt.Errorf("measuring what \"make build\" builds: %w", err)
		}
		figures = append(figures, report.AtMost("program "+program+", size", float64(info.Size())/mebibyte, bounds[program], "MiB",
			"the file bin/"+program+" as make build leaves it and the image has it"))
	}
	return figures, nil
}
