package main

import (
	"time"

	"github.com/keyturn/keyturn/internal/report"
)

// size is how much is measured.
type size struct {
	// idle is how long the operator is watched doing nothing, quiet how long operators with many users are.
	idle, quiet time.Duration
	// some and many are how many users are applied at once, issued how many an issuer of cert-manager signs.
	some, many, issued int
	// benchmarks are further arguments of Go benchmarks.
	benchmarks []string
	// judged is what becomes of a figure with a target.
	judged func(report.Figure) report.Figure
}

// whole is what targets are about.
func whole(idle time.Duration) size {
	return size{
		idle: idle, quiet: time.Minute, some: 500, many: 10_000, issued: 100,
		judged: func(figure report.Figure) report.Figure { return figure },
	}
}

// short shows that each measurement works. Its figures say nothing about targets.
func short() size {
	const moment, handful = 5 * time.Second, 5
	return size{
		idle: moment, quiet: moment, some: handful, many: 2 * handful, issued: handful,
		benchmarks: []string{"-short", "-benchtime=1x"},
		judged: func(figure report.Figure) report.Figure {
			return report.Observed(figure.Name, figure.Value, figure.Unit, figure.How)
		},
	}
}
