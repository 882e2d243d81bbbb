package serverlog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/keyturn/keyturn/internal/agent/process"
)

// Event is what a line tells about the server's start.
type Event string

// Events, in the order in which they happen.
const (
	// Recovering: log segments are checked after an unclean stop, or the broker
	// has caught up with the metadata and waits to be let in. Kafka calls both
	// RECOVERY, and they can take long.
	Recovering Event = "recovering"
	// Running: the controller lets the broker take part.
	Running Event = "running"
)

// bufferSize is the longest line that is looked at as a whole.
const bufferSize = 16 << 10

// signs are substrings of lines that Kafka writes at level INFO: the first two
// of kafka.server.BrokerLifecycleManager, the last of LogManager (read from
// Kafka 4.3.1).
func signs() map[Event][]string {
	return map[Event][]string{
		Running:    {"Transitioning from RECOVERY to RUNNING"},
		Recovering: {"Transitioning from STARTING to RECOVERY", "since no clean shutdown file was found"},
	}
}

// Recognize returns what a line tells, if anything.
func Recognize(line string) (Event, bool) {
	for event, substrings := range signs() {
		for _, s := range substrings {
			if strings.Contains(line, s) {
				return event, true
			}
		}
	}
	return "", false
}

// Pump copies the output to its end and calls seen for each event up to Running.
// If the output cannot be written any more it goes on reading, so that the
// server is not stopped by its own log.
func Pump(output io.Reader, to io.Writer, seen func(Event)) {
	reader := bufio.NewReaderSize(output, bufferSize)
	sink := process.Lossy(to)
	for {
		line, err := reader.ReadSlice('\n')
		_, _ = sink.Write(line) // never fails
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		event, ok := Recognize(string(bytes.TrimRight(line, "\n")))
		if !ok {
			continue
		}
		seen(event)
		if event == Running {
			break
		}
	}
	_, _ = io.Copy(sink, reader) // ends with the output
}
