package harness

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JVMWindow is what Kafka's producer says of a stretch of its work.
type JVMWindow struct {
	At      time.Time
	Records uint64
	// Slowest acknowledgement of the stretch.
	Slowest time.Duration
}

// JVMAccount is what a JVM client said about itself.
type JVMAccount struct {
	// Acknowledged records; those of the last second may be missing.
	Acknowledged uint64
	// Kept is how many records the log has at the end.
	Kept    uint64
	Windows []JVMWindow
	// Failed records, and connections that failed for TLS.
	Failed      uint64
	TLSFailures uint64
	// Complaints are the first lines that tell of either.
	Complaints []string
}

// Lost is how many acknowledged records the log does not have.
func (a JVMAccount) Lost() uint64 {
	if a.Kept >= a.Acknowledged {
		return 0
	}
	return a.Acknowledged - a.Kept
}

// Slowest acknowledgement of the windows that ended in a time.
func (a JVMAccount) Slowest(from, to time.Time) time.Duration {
	for _, window := range a.Slow(from, to, 1) {
		return window.Slowest
	}
	return 0
}

// Slow are the slowest windows of a time, the slowest first.
func (a JVMAccount) Slow(from, to time.Time, count int) []JVMWindow {
	windows := slices.DeleteFunc(slices.Clone(a.Windows), func(w JVMWindow) bool { return w.At.Before(from) || w.At.After(to) })
	slices.SortStableFunc(windows, func(x, y JVMWindow) int { return cmp.Compare(y.Slowest, x.Slowest) })
	return windows[:min(count, len(windows))]
}

// maxComplaints bounds what is listed.
const maxComplaints = 20

// with is the account after one more line of the log of kafka-producer-perf-test: one
// of its own every second, or what Kafka's client logs when something goes wrong.
func (a JVMAccount) with(at time.Time, line string) JVMAccount {
	if found := windowLine().FindStringSubmatch(line); found != nil {
		records, errRecords := strconv.ParseUint(found[1], 10, 64)
		slowest, errSlowest := strconv.ParseFloat(found[2], 64)
		if errRecords == nil && errSlowest == nil {
			a.Acknowledged += records
			a.Windows = append(a.Windows, JVMWindow{At: at, Records: records, Slowest: time.Duration(slowest * float64(time.Millisecond))})
		}
		return a
	}
	switch {
	case strings.Contains(line, "failed authentication due to"):
		a.TLSFailures++
	case strings.HasPrefix(line, "org.apache.kafka.common.errors."): // the callback prints what became of a record
		a.Failed++
	case strings.Contains(line, "SSLHandshakeException"), strings.Contains(line, "OutOfMemoryError"):
	default:
		return a
	}
	if len(a.Complaints) < maxComplaints {
		a.Complaints = append(a.Complaints, line)
	}
	return a
}

// windowLine is one such as "101 records sent, 20.2 records/sec (0.00 MB/sec), 6.5
// ms avg latency, 245.0 ms max latency." The line of the end goes on, and is not
// one of them.
func windowLine() *regexp.Regexp {
	return regexp.MustCompile(`^(\d+) records sent, .* ms avg latency, ([\d.]+) ms max latency\.$`)
}
