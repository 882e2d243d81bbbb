//go:build !race

package admin_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

// The race detector takes memory of its own, which nobody's limit is about.

// filled is as long as an answer may be, and announces at the end of each part as many elements as
// bytes remain.
func filled(name string, parts ...[]byte) kmsg.Response {
	const number = 3 // bytes that a length takes
	body, room := []byte{}, longest(name)-header
	for _, part := range parts {
		body = append(body, part...)
		body = binary.AppendUvarint(body, uint64(room-len(body)-number)+1)
	}
	return raw{kindOf(name), append(body, make([]byte, room-len(body))...)}
}

// filling are answers as long as they may be, that take as much memory as such answers can.
func filling() map[string]kmsg.Response {
	zeros := func(n int) []byte { return make([]byte, n) }
	name := []byte{2, 't'}
	return map[string]kmsg.Response{
		"DescribeCluster": filled("DescribeCluster", slices.Concat(zeros(4+2+1+1), name, zeros(4))),
		"DescribeTopicPartitions": filled("DescribeTopicPartitions",
			zeros(4), slices.Concat(zeros(2), name, zeros(16+1)), zeros(2+4+4+4)),
		"DescribeConfigs": filled("DescribeConfigs",
			zeros(4), slices.Concat(zeros(2+1+1), name), slices.Concat(name, zeros(1+1+1+1))),
		"DescribeQuorum": filled("DescribeQuorum", zeros(2), name, zeros(4+2+4+4+8)),
		"Metadata": filled("Metadata",
			slices.Concat(zeros(4), []byte{1, 0}, zeros(4)), slices.Concat(zeros(2), name, zeros(16+1)), zeros(2+4+4+4)),
		"UpdateFeatures": filled("UpdateFeatures", zeros(4+2+1)),
	}
}

func TestNoAnswerTakesMoreThan32MiBWhileItIsRead(t *testing.T) {
	answers := filling()
	for name, ask := range asked() {
		t.Run(name, func(t *testing.T) {
			k := hostile(name, answers[name]).open(t, []string{"b0:9091"}, []string{"c0:9090"})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ask(t.Context(), k)
			runtime.ReadMemStats(&after)
			taken := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB for an answer of %d KiB: %v", taken>>10, longest(name)>>10, err)
			if _, ok := errors.AsType[*admin.LongAnswerError](err); ok || err == nil {
				t.Errorf("error %v, want that the answer was read and is broken", err)
			}
			if taken > 32<<20 {
				t.Errorf("%d KiB were taken", taken>>10)
			}
		})
	}
}
