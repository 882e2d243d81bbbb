package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcddomains "github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
)

// stamp is how times are shown: to the second, in UTC.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// planText renders plans for people.
func planText(report planReport) string {
	var b strings.Builder
	for i := range report.Domains {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(domainText(report, &report.Domains[i]))
	}
	return b.String()
}

func domainText(report planReport, d *domainPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (namespace %s), %s: %s\n", report.of, report.Namespace, called(d.Domain), question(d))
	fmt.Fprintf(&b, "Nothing is changed: this is what the operator would do, computed from its record of %s (%s old).\n",
		d.RecordedAt, ago(time.Duration(d.AgeSeconds)*time.Second))
	b.WriteString(d.text())
	b.WriteString("\n" + d.Message + "\n\n")
	switch {
	case len(d.Stages)+len(d.Blocked) > 0:
		b.WriteString(d.course())
	case d.words.Settled(d.Phase):
		b.WriteString("There is nothing to do.\n\n")
	default:
		b.WriteString("Nothing remains but to wait.\n\n")
	}
	b.WriteString(outlookText(report, d))
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func question(d *domainPlan) string {
	switch {
	case d.If == "replace, distrust":
		return "if its key were replaced now and every other certificate distrusted"
	case d.If == "replace":
		return "if its key were replaced now"
	case d.If == "renew":
		return "if its certificate were renewed now"
	case len(d.Stages) == 0, d.Strategy == "":
		return string(d.Phase)
	default:
		return "rotation in progress"
	}
}

// text says what has become of the objects that the record was made from.
func (d drift) text() string {
	var b strings.Builder
	if len(d.Moved) > 0 {
		fmt.Fprintf(&b, "CHANGED SINCE: %s. Run plan again when the operator has seen the change.\n", strings.Join(d.Moved, ", "))
	}
	if len(d.Unknown) > 0 {
		fmt.Fprintf(&b, "You may not read %s, so plan cannot tell whether it has changed since.\n", strings.Join(d.Unknown, ", "))
	}
	return b.String()
}

// course is the table of steps, of nodes, and of what stands in the way.
func (d *domainPlan) course() string {
	var b strings.Builder
	if d.Strategy != "" || len(d.Stages) == 0 {
		fmt.Fprintf(&b, "strategy  %s: %s\n", cmp.Or(string(d.Strategy), "none"), cmp.Or(d.Reason, "nothing changes"))
	}
	fmt.Fprintf(&b, "time      %s%s\n\n", duration(d.Forecast), d.wait())
	b.WriteString(stagesText(d.Stages))
	b.WriteString(nodesText(d.words.Node, d.Nodes))
	for _, line := range d.Certificates {
		fmt.Fprintf(&b, "WAITING FOR A CERTIFICATE: %s\n", line)
	}
	for _, line := range d.Blocked {
		fmt.Fprintf(&b, "BLOCKED: %s\n", line)
	}
	for _, line := range d.Afterwards {
		fmt.Fprintf(&b, "Afterwards: %s\n", line)
	}
	return trimmed(b.String())
}

// wait says that the time of a course begins with certificates of an issuer.
func (d *domainPlan) wait() string {
	if len(d.Certificates) == 0 {
		return ""
	}
	return "; not counting the wait for certificates, see below"
}

func stagesText(stages []rotation.Stage) string {
	if len(stages) == 0 {
		return ""
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "STEP\tTIME\tWHAT")
	later := false
	for i, stage := range stages {
		if stage.Remainder && !later {
			later = true
			_, _ = fmt.Fprintln(table, "\t\tThen, what can wait:")
		}
		for _, line := range stage.After {
			_, _ = fmt.Fprintf(table, "\t\t  %s\n", line)
		}
		for j, step := range stage.Steps {
			number, length := "", ""
			if j == 0 {
				number, length = strconv.Itoa(i+1), seconds(stage.Duration)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", number, length, because(step))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	return b.String() + "\n"
}

func because(step rotation.Step) string {
	if step.Reason == "" {
		return step.Text
	}
	return step.Text + ": " + step.Reason
}

// duration says how long a course takes, and of what that is not known.
func duration(f rotation.Forecast) string {
	text := "a moment"
	if f.Duration > 0 {
		text = "about " + seconds(f.Duration)
	}
	if f.Remainder > 0 {
		text += fmt.Sprintf(", and %s more for the restarts that can wait", seconds(f.Remainder))
	}
	if len(f.Unmeasured) > 0 {
		text += fmt.Sprintf("; not counting the %s, which have not been measured on this cluster yet", strings.Join(f.Unmeasured, " and "))
	}
	return text
}

func seconds(s rotation.Seconds) string {
	switch {
	case s == 0:
		return ""
	case s < 10:
		return fmt.Sprintf("%.1fs", float64(s))
	default:
		return time.Duration(float64(s) * float64(time.Second)).Round(time.Second).String()
	}
}

func nodesText(called string, nodes []rotation.NodeWork) string {
	if len(nodes) == 0 {
		return ""
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.ToUpper(called)+"\tRELOADS\tRESTARTS\tRESTARTS THAT CAN WAIT")
	for _, n := range nodes {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", n.Node, n.Reloads, n.Restarts, n.Later)
	}
	_ = table.Flush()
	return b.String() + "\n"
}

// outlookText says which kinds of clients are affected while the rotation runs, and which need the new CA by when.
func outlookText(report planReport, d *domainPlan) string {
	if len(d.Clients) == 0 {
		return ""
	}
	needed, search := "the new CA", "look for pods that mount Secret "+authorities.Cluster.CertSecret(report.Cluster)+", and for copies of its ca.crt"
	switch d.Domain {
	case string(authorities.Clients):
		needed, search = "a new certificate", "look for KafkaUsers, and for certificates that were issued otherwise"
	case etcddomains.Recorded(contract.ClientPlane):
		search = "look for EtcdAccesses, and for copies of their Secrets"
	}
	var b strings.Builder
	b.WriteString("Clients affected during the rotation: ")
	if slices.ContainsFunc(d.Clients, func(o rotation.Outlook) bool { return o.Notices }) {
		b.WriteString("SOME\n")
	} else {
		b.WriteString("none\n")
	}
	for _, o := range d.Clients {
		fmt.Fprintf(&b, "  a client that %s: %s", o.Client, o.What)
		if !o.Until.IsZero() {
			fmt.Fprintf(&b, "; needs %s by %s", needed, stamp(o.Until))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "plan knows no other kinds and does not see your clients: %s.\n", search)
	return b.String()
}

// trimmed takes the blanks off the ends of lines that a table leaves there.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
