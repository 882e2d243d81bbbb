package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/keyturn/keyturn/internal/cli/check"
)

// checkText renders a check for people: a line for each finding, or one that there is none.
func checkText(report checkReport, within time.Duration) string {
	var b strings.Builder
	if len(report.Findings) == 0 {
		fmt.Fprintf(&b, "%s\n", passedText(len(report.Checked), within))
	} else {
		b.WriteString(findingsText(report.Findings))
	}
	for _, note := range report.NotChecked {
		fmt.Fprintf(&b, "%s\n", said(note))
	}
	return trimmed(b.String())
}

func passedText(clusters int, within time.Duration) string {
	if within == 0 {
		return fmt.Sprintf("Checked %s: ready, and no renewal is overdue.", counted(clusters))
	}
	return fmt.Sprintf("Checked %s: ready, and no certificate expires within %s.", counted(clusters), check.Period(within))
}

func counted(clusters int) string {
	if clusters == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", clusters)
}

func findingsText(findings []check.Finding) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAMESPACE\tOBJECT\tFINDING\tWHEN\tWHAT\tWHAT TO DO")
	for i := range findings {
		f := &findings[i]
		when := "-"
		if !f.When.IsZero() {
			when = stamp(f.When)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Namespace, f.Object, f.Kind, when, said(f.What), said(f.Remedy))
	}
	_ = table.Flush() // a strings.Builder takes everything
	return b.String()
}
