// Command stages runs make targets one after the other, says how long each one took, and stops at the first that fails.
//
// If one of the targets starts the bed and no bed was running before, the bed is taken down again at the end:
// a run leaves the machine as it found it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	bedUp     = "bed-up"
	bedDown   = "bed-down"
	bedStatus = "bed-status"
)

// result is what became of one target.
type result struct {
	target string
	took   time.Duration
	err    error
}

func main() {
	root := flag.String("C", ".", "folder of the Makefile")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok := run(ctx, *root, flag.Args())
	stop()
	if !ok {
		os.Exit(1)
	}
}

// run executes the targets and reports whether all of them succeeded.
func run(ctx context.Context, root string, targets []string) bool {
	startsBed := slices.Contains(targets, bedUp) && makeTarget(ctx, root, bedStatus, io.Discard) != nil

	var results []result
	for i, target := range targets {
		fmt.Printf("\n=== %d/%d %s\n", i+1, len(targets), target)
		r := timed(ctx, root, target)
		results = append(results, r)
		if r.err != nil {
			break
		}
	}
	if startsBed {
		fmt.Printf("\n=== %s: no bed was running before\n", bedDown)
		// The bed goes even after an interrupt; its own program bounds the time.
		results = append(results, timed(context.WithoutCancel(ctx), root, bedDown))
	}
	return summarize(os.Stdout, results, len(targets))
}

// timed runs one target with its output on ours.
func timed(ctx context.Context, root, target string) result {
	start := time.Now()
	err := makeTarget(ctx, root, target, os.Stdout)
	took := time.Since(start).Round(100 * time.Millisecond)
	fmt.Printf("--- %s %s in %s\n", target, outcome(err), took)
	return result{target: target, took: took, err: err}
}

// makeTarget runs make in its own process group's foreground, so that an interrupt reaches it like us.
func makeTarget(ctx context.Context, root, target string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", root, target)
	cmd.Stdout, cmd.Stderr = out, out
	// A target gets time to tidy up before it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	return nil
}

// summarize prints one line per stage and a closing line that counts them.
func summarize(out io.Writer, results []result, planned int) bool {
	var passed, failed int
	var total time.Duration
	fmt.Fprintln(out)
	for _, r := range results {
		fmt.Fprintf(out, "%-16s %-7s %s\n", r.target, outcome(r.err), r.took)
		total += r.took
		if r.err != nil {
			failed++
			continue
		}
		passed++
	}
	fmt.Fprintf(out, "%-16s %-7s %s\n", "total", "", total)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, max(0, planned-len(results)))
	return failed == 0 && len(results) >= planned
}

func outcome(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "ok"
}
