package harness

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
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
	// Warnings are the first lines about anything else that the client finds strange,
	// such as a connection that ended early.
	Warnings []string
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
	var slowest time.Duration
	for _, window := range a.Windows {
		if !window.At.Before(from) && !window.At.After(to) {
			slowest = max(slowest, window.Slowest)
		}
	}
	return slowest
}

// LongestGap is the longest time in which the client said nothing, and ended in a
// time. The client speaks when a record is acknowledged and a window is over, so no
// gap between two acknowledgements is longer.
func (a JVMAccount) LongestGap(from, to time.Time) ledger.Gap {
	var longest ledger.Gap
	for i := 1; i < len(a.Windows); i++ {
		if at := a.Windows[i].At; !at.Before(from) && !at.After(to) {
			longest = longest.Longer(ledger.Gap{From: a.Windows[i-1].At, Length: at.Sub(a.Windows[i-1].At)})
		}
	}
	return longest
}

// maxComplaints bounds what is listed.
const maxComplaints = 20

// with is the account after one more line of the log of kafka-producer-perf-test: one
// of its own ten times a second, or what Kafka's client logs when something goes wrong.
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
	case strings.Contains(line, "] WARN ") && len(a.Warnings) < maxComplaints:
		a.Warnings = append(a.Warnings, at.UTC().Format(time.TimeOnly)+" "+line)
		return a
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
