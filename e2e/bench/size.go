package main

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// size is how much is measured.
type size struct {
	// idle is how long the operator is watched doing nothing, after a time of settling, and quiet how long operators with many users are.
	settling, idle, quiet time.Duration
	// exercise is how long servers are warmed up, and nothing how long clients work at most after a replacement.
	exercise, nothing time.Duration
	// rolled says what roll restarts.
	rolled string
	roll   func(harness.Kafka, context.Context) error
	// some and many are how many users are applied at once, issued how many an issuer of cert-manager signs.
	some, many, issued int
	// topics are how many topics are applied at once.
	topics int
	// members are how many an etcd cluster has.
	members int32
	// benchmarks are further arguments of Go benchmarks.
	benchmarks []string
	// judged is what becomes of a figure with a target.
	judged func(report.Figure) report.Figure
}

// whole is what targets are about.
func whole(idle time.Duration) size {
	return size{
		settling: 20 * time.Second, idle: idle, quiet: time.Minute, some: 500, many: 10_000, issued: 100, topics: 5000, members: 3,
		exercise: harness.Exercise, nothing: limit, rolled: "all 3 nodes", roll: harness.Kafka.Roll,
		judged: func(figure report.Figure) report.Figure { return figure },
	}
}

// short shows that each measurement works. Its figures say nothing about targets, but for what clients have lost.
func short() size {
	const moment, handful = 5 * time.Second, 5
	return size{
		settling: moment, idle: moment, quiet: moment, some: handful, many: 2 * handful, issued: handful, topics: handful, members: 1,
		exercise: moment, nothing: moment, rolled: "one of 3 nodes", roll: harness.Kafka.RollOne,
		benchmarks: []string{"-short", "-benchtime=1x"},
		judged: func(figure report.Figure) report.Figure {
			return report.Observed(figure.Name, figure.Value, figure.Unit, figure.How)
		},
	}
}
