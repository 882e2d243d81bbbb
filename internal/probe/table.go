package probe

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Table renders a snapshot for people, one line per client and watch.
func Table(s Snapshot) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s", s.At.Sub(s.StartedAt).Round(time.Second))
	if s.Phase != "" {
		fmt.Fprintf(&text, "  %s", s.Phase)
	}
	text.WriteString("\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "CLIENT\tLISTENER\tSENT\tACKED\tFAILED\tUNREAD\tDUPLICATE\tORDER\tTLS FAIL\tFRESH OK\tDOWN\tGAP ms\tWORST PARTITION ms\t")
	for _, client := range s.Clients {
		records, fresh := client.Records, client.Fresh()
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			client.Kind, client.Listener, records.Sent, records.Acknowledged, records.Failed, records.Unread,
			records.Duplicated, records.OutOfOrder, client.Refusals(), fresh.Accepted, fresh.Unreachable+fresh.Interrupted,
			records.LongestGap.Length.Milliseconds(), records.LongestPartitionGap.Length.Milliseconds())
	}
	_ = table.Flush() // a strings.Builder takes everything, so none of these fails
	text.WriteString(reasons(s))
	text.WriteString(watches(s))
	return text.String()
}

// reasons says why records were given up and clients refused, each reason once per
// client.
func reasons(s Snapshot) string {
	var text strings.Builder
	for _, client := range s.Clients {
		for _, reason := range sortedKeys(client.Records.Because) {
			fmt.Fprintf(&text, "  %s@%s gave %d records up: %s\n", client.Kind, client.Listener, client.Records.Because[reason], reason)
		}
		for _, reason := range sortedKeys(client.TLSFailures) {
			fmt.Fprintf(&text, "  %s@%s refused %d times: %s\n", client.Kind, client.Listener, client.TLSFailures[reason], reason)
		}
	}
	return text.String()
}

func watches(s Snapshot) string {
	var text strings.Builder
	for _, watch := range s.Watches {
		fresh := watch.Fresh()
		fmt.Fprintf(&text, "  watch %s@%s: %d accepted, %d refused, %d not answered\n",
			watch.Name, watch.Listener, fresh.Accepted, fresh.Refused, fresh.Interrupted+fresh.Unreachable)
	}
	return text.String()
}
