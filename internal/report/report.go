package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Report is the content of report.json.
type Report struct {
	// Name of what was run, for example "cluster/rolls-under-load".
	Name string `json:"name"`
	// Ok says that all that was asked for was reached.
	Ok              bool      `json:"ok"`
	StartedAt       time.Time `json:"startedAt"`
	DurationSeconds float64   `json:"durationSeconds"`
	// Machine says where it ran; figures of different machines do not compare.
	Machine string   `json:"machine"`
	Figures []Figure `json:"figures"`
	Clients []Client `json:"clients"`
	// Handshakes count fresh connections by who made them, to which node, and in
	// which phase.
	Handshakes []Handshakes `json:"handshakes"`
	// Restarts counts the restarts of each pod while it ran.
	Restarts map[string]int `json:"restarts"`
	Notes    []string       `json:"notes"`
}

// Figure is one measured number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Target in words, for example "<= 3"; empty where there is none.
	Target string `json:"target"`
	Ok     bool   `json:"ok"`
	// How it was measured.
	How string `json:"how"`
}

// Client is the account of one kind of client on one listener.
type Client struct {
	Kind         string  `json:"kind"`
	Listener     string  `json:"listener"`
	Sent         uint64  `json:"sent"`
	Acknowledged uint64  `json:"acknowledged"`
	Lost         uint64  `json:"lost"`
	Duplicated   uint64  `json:"duplicated"`
	OutOfOrder   uint64  `json:"outOfOrder"`
	TLSFailures  uint64  `json:"tlsFailures"`
	LongestGapMs float64 `json:"longestGapMs"`
}

// Handshakes are the fresh connections of one client or watcher to one node in one
// phase.
type Handshakes struct {
	// Who is the kind of a client, or the name of a watcher.
	Who      string `json:"who"`
	Listener string `json:"listener"`
	Node     string `json:"node"`
	Phase    string `json:"phase"`
	Accepted uint64 `json:"accepted"`
	// Refused by one side; the only ones that are TLS failures.
	Refused uint64 `json:"refused"`
	// Interrupted in the middle, and Unreachable, as nodes are that stop.
	Interrupted uint64 `json:"interrupted"`
	Unreachable uint64 `json:"unreachable"`
}

// atMost begins the target of a figure with an upper bound.
const atMost = "<= "

// AtMost is a figure that must not be above a bound.
func AtMost(name string, value, bound float64, unit, how string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Target: atMost + number(bound), Ok: value <= bound, How: how}
}

// AtLeast is a figure that must not be below a bound.
func AtLeast(name string, value, bound float64, unit, how string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Target: ">= " + number(bound), Ok: value >= bound, How: how}
}

// Observed is a figure without a target.
func Observed(name string, value float64, unit, how string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Ok: true, How: how}
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// Verdict says whether every figure reached its target.
func Verdict(figures []Figure) bool {
	for _, figure := range figures {
		if !figure.Ok {
			return false
		}
	}
	return true
}

// IsSlow reports whether the figure is a time that was too long, as it may be on a machine
// that is busy with other things. A time that was too short is wrong on any machine.
func (f Figure) IsSlow() bool {
	return !f.Ok && (f.Unit == "s" || f.Unit == "ms") && strings.HasPrefix(f.Target, atMost)
}

// Slow are the times that were too long.
func Slow(figures []Figure) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool { return !f.IsSlow() })
}

// Correct says whether every figure reached its target but for times that were too long.
func Correct(figures []Figure) bool {
	return Verdict(slices.DeleteFunc(slices.Clone(figures), Figure.IsSlow))
}

// Milliseconds is a duration in the unit of the reports.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// Encode renders the report with every field present: readers find an empty list
// where there is nothing, and clients in a stable order.
func (r Report) Encode() ([]byte, error) {
	r.StartedAt = r.StartedAt.UTC().Truncate(time.Millisecond)
	r.Figures = append([]Figure{}, r.Figures...)
	r.Notes = append([]string{}, r.Notes...)
	r.Clients = append([]Client{}, r.Clients...)
	r.Handshakes = append([]Handshakes{}, r.Handshakes...)
	sort.SliceStable(r.Clients, func(i, j int) bool {
		if r.Clients[i].Listener != r.Clients[j].Listener {
			return r.Clients[i].Listener < r.Clients[j].Listener
		}
		return r.Clients[i].Kind < r.Clients[j].Kind
	})
	r.DurationSeconds = math.Round(r.DurationSeconds*1000) / 1000
	if r.Restarts == nil {
		r.Restarts = map[string]int{}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // targets are written with < and >
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding report %s: %w", r.Name, err)
	}
	return out.Bytes(), nil
}

// Machine describes the machine this runs on.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// loadAverages is where Linux says how many processes have wanted a processor.
const loadAverages = "/proc/loadavg"

// Busyness says how many processors there are and how many processes have wanted one in
// the last minute, where the system tells.
func Busyness() string {
	processors := fmt.Sprintf("%d processors", runtime.NumCPU())
	averages, err := os.ReadFile(loadAverages)
	if err != nil {
		return processors
	}
	lastMinute, _, _ := strings.Cut(string(averages), " ")
	return processors + ", load " + lastMinute
}

// Files of a report, in out/<kind>/<name>/.
const (
	fileReport = "report.json"
	fileSVG    = "timeline.svg"
)

// Picture is a rendered time line.
type Picture []byte

// Write puts report and picture into a directory, which it makes.
func Write(directory string, report Report, picture Picture) error {
	data, err := report.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return fmt.Errorf("making directory of report %s: %w", report.Name, err)
	}
	files := map[string][]byte{fileReport: data, fileSVG: picture}
	for _, name := range []string{fileReport, fileSVG} {
		if len(files[name]) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(directory, name), files[name], 0o600); err != nil {
			return fmt.Errorf("writing %s of report %s: %w", name, report.Name, err)
		}
	}
	return nil
}
