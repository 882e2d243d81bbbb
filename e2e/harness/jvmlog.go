package harness

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/probe/ledger"
)

// JVMWindow is what Kafka's producer says of a stretch of its work.
type JVMWindow struct {
	// At is when its line was read. On a busy machine that may be a second after it
	// was written.
	At      time.Time
	Records uint64
	// Length of the stretch by the client's own clock, not less than it was.
	Length time.Duration
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

// LongestGap is the longest stretch that began in a time. A stretch ends with an
// acknowledgement, and the next one begins there, so no gap between two
// acknowledgements is longer.
func (a JVMAccount) LongestGap(from, to time.Time) ledger.Gap {
	var longest ledger.Gap
	for _, w := range a.Windows {
		if begun := w.At.Add(-w.Length); !begun.Before(from) && !begun.After(to) {
			longest = longest.Longer(ledger.Gap{From: begun, Length: w.Length})
		}
	}
	return longest
}

// maxComplaints bounds what is listed.
const maxComplaints = 20

// with is the account after one more line of the log of kafka-producer-perf-test: one
// of its own when records were acknowledged, or what Kafka's client logs when something goes wrong.
func (a JVMAccount) with(at time.Time, line string) JVMAccount {
	if window, found := windowOf(line); found {
		window.At = at
		a.Acknowledged += window.Records
		a.Windows = append(a.Windows, window)
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

// rateStep is half of the last digit in which the client gives its rate: the rate may
// have been less by so much.
const rateStep = 0.05

// windowOf reads what the client says of a stretch.
func windowOf(line string) (JVMWindow, bool) {
	found := windowLine().FindStringSubmatch(line)
	if found == nil {
		return JVMWindow{}, false
	}
	records, errRecords := strconv.ParseUint(found[1], 10, 64)
	rate, errRate := strconv.ParseFloat(found[2], 64)
	slowest, errSlowest := strconv.ParseFloat(found[3], 64)
	if errors.Join(errRecords, errRate, errSlowest) != nil {
		return JVMWindow{}, false
	}
	return JVMWindow{
		Records: records, Length: seconds(float64(records) / max(rate-rateStep, rateStep)), Slowest: seconds(slowest / 1000),
	}, true
}

// seconds in the resolution of the client's clock.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// windowLine is one such as "101 records sent, 20.2 records/sec (0.00 MB/sec), 6.5
// ms avg latency, 245.0 ms max latency." The line of the end goes on, and is not
// one of them.
func windowLine() *regexp.Regexp {
	return regexp.MustCompile(`^(\d+) records sent, ([\d.]+) records/sec .* ms avg latency, ([\d.]+) ms max latency\.$`)
}
