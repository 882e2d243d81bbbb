// Package report is the one form in which demo, end-to-end scenarios, benchmarks
// and the probe say what happened: report.json and a picture of the time line.
//
// It decides how findings are written down, and must not know how they were
// measured.
package report
