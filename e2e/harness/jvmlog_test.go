package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Lines of Kafka 4.3.1, with the times that a kubelet puts in front.
const jvmLog = `2026-11-21T08:30:01.5Z 21 records sent, 420.05 records/sec (0.00 MB/sec), 9.4 ms avg latency, 39.0 ms max latency.
2026-11-21T08:30:02.5Z 1 records sent, 2.05 records/sec (0.01 MB/sec), 104.1 ms avg latency, 2000.5 ms max latency.
2026-11-21T08:30:03Z [2026-11-21 08:30:03,021] ERROR [Producer clientId=perf-producer-client] Connection to node 1 (b/10.244.0.9:9093) failed authentication due to: SSL handshake failed (org.apache.kafka.clients.NetworkClient)
2026-11-21T08:30:03Z org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed
2026-11-21T08:30:03Z Caused by: javax.net.ssl.SSLHandshakeException: PKIX path building failed
2026-11-21T08:30:03Z 	at java.base/sun.security.ssl.Alert.createSSLException(Alert.java:131)
unexpected stream type
2026-11-21T08:30:04Z 100 records sent, 20.0 records/sec (0.00 MB/sec), 26.63 ms avg latency, 2000.50 ms max latency, 12 ms 50th, 98 ms 95th, 99 ms 99th, 99 ms 99.9th.
`

func TestTheLogOfAJVMClientIsRead(t *testing.T) {
	t.Parallel()
	j := &JVM{}
	if err := j.read(strings.NewReader(jvmLog)); err != nil {
		t.Fatal(err)
	}
	got := j.Account()
	got.Kept = 20
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	want := JVMAccount{
		Acknowledged: 22, Kept: 20, Failed: 1, TLSFailures: 1,
		Windows: []JVMWindow{
			{At: at("2026-11-21T08:30:01.5Z"), Records: 21, Length: 50 * time.Millisecond, Slowest: 39 * time.Millisecond},
			{At: at("2026-11-21T08:30:02.5Z"), Records: 1, Length: 500 * time.Millisecond, Slowest: 2001 * time.Millisecond},
		},
	}
	for line := range strings.Lines(jvmLog) {
		if strings.Contains(line, "failed") { // the three that tell why
			_, complaint, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			want.Complaints = append(want.Complaints, complaint)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
	if lost := got.Lost(); lost != 2 {
		t.Errorf("%d records are lost, want 2", lost)
	}
	if slowest := got.Slowest(at("2026-11-21T08:30:01Z"), at("2026-11-21T08:30:02Z")); slowest != 39*time.Millisecond {
		t.Errorf("slowest of the first second %s", slowest)
	}
	if gap := got.LongestGap(at("2026-11-21T08:30:01Z"), at("2026-11-21T08:31:00Z")); gap.Length != 500*time.Millisecond || !gap.From.Equal(at("2026-11-21T08:30:02Z")) {
		t.Errorf("longest gap %+v, want the half second before the last line", gap)
	}
	if gap := got.LongestGap(at("2026-11-21T08:30:02.1Z"), at("2026-11-21T08:31:00Z")); gap.Length != 0 {
		t.Errorf("longest gap %+v, want none: it began before", gap)
	}
}

func TestALogOfMoreThanWasHeardOfLosesNothing(t *testing.T) {
	t.Parallel()
	if lost := (JVMAccount{Acknowledged: 5, Kept: 7}).Lost(); lost != 0 {
		t.Errorf("%d records are lost, want 0", lost)
	}
}
