package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/rotation"
)

// statusText renders a status for people.
func statusText(report statusReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka/%s (namespace %s)", report.Cluster, report.Namespace)
	if report.At != "" {
		fmt.Fprintf(&b, " at %s", report.At)
	}
	b.WriteString("\n")
	for i := range report.Domains {
		b.WriteString("\n" + authorityText(&report.Domains[i]))
	}
	if report.Message != "" {
		b.WriteString("\n" + said(report.Message) + "\n")
	}
	b.WriteString(usersText(report.Users))
	b.WriteString(conditionsText(report))
	return trimmed(b.String())
}

// usersText counts the users, and names those in Kafka that nobody manages.
func usersText(users *kafkav1.UsersStatus) string {
	if users == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nUSERS  %d of %d ready, %d with a current certificate\n", users.Ready, users.Total, users.Reissued)
	if unmanaged := users.Unmanaged; unmanaged != nil && *unmanaged > 0 {
		fmt.Fprintf(&b, "  in Kafka and no KafkaUsers: %s%s\n", strings.Join(excerpt.Each(users.UnmanagedNames, excerpt.Foreign), "  "),
			andMore(int(*unmanaged)-len(users.UnmanagedNames)))
	}
	return b.String()
}

func andMore(count int) string {
	if count <= 0 {
		return ""
	}
	return fmt.Sprintf("  and %d more", count)
}

// maxSaid is as long as the message of a condition may be.
const maxSaid = 32 << 10

// said is a text that may quote somebody else, as a terminal can show it.
func said(text string) string { return excerpt.Of(text, maxSaid) }

func authorityText(s *rotation.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", strings.ToUpper(called(s.Domain)), s.Phase)
	if !s.StartedAt.IsZero() {
		fmt.Fprintf(&b, ", started %s", stamp(s.StartedAt))
	}
	fmt.Fprintf(&b, "\n  %s\n", said(s.Message))
	if p := s.Progress; p.Members > 0 {
		fmt.Fprintf(&b, "  progress: %s\n", progressText(p))
	}
	for _, blocker := range s.Blockers {
		if !strings.Contains(s.Message, blocker) {
			fmt.Fprintf(&b, "  %s\n", said(blocker))
		}
	}
	b.WriteString("\n" + anchorsText(s.Anchors) + "\n" + membersText(s.Members))
	return b.String()
}

func progressText(p rotation.Progress) string {
	of := func(n int, what string) string { return fmt.Sprintf("%d/%d %s", n, p.Members, what) }
	return strings.Join([]string{
		of(p.Trust, "trust the new CA"), of(p.Present, "present it"),
		of(p.Distrust, "refuse the old one"), of(p.Closed, "no longer hold it anywhere"),
	}, ", ")
}

func anchorsText(anchors []rotation.AnchorStatus) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  CA CERTIFICATE\tSHA-256\tSTATE\tIN ca.crt\tEXPIRES\tNOTE")
	for i := range anchors {
		a := &anchors[i]
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(a.Name, "?"), rotation.Short(a.ID), cmp.Or(string(a.State), "not stored"),
			place(a.Application), stamp(a.NotAfter), notes(a))
	}
	_ = table.Flush() // a strings.Builder takes everything
	return b.String()
}

func place(application int) string {
	if application == 0 {
		return "no"
	}
	return fmt.Sprintf("entry %d", application)
}

func notes(a *rotation.AnchorStatus) string {
	var list []string
	if a.Issuing {
		list = append(list, "stays")
	}
	if a.Compromised {
		list = append(list, "distrusted")
	}
	if !a.CrossUntil.IsZero() {
		list = append(list, "cross certificate until "+stamp(a.CrossUntil))
	}
	return strings.Join(list, ", ")
}

func membersText(members []rotation.MemberStatus) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  MEMBER\tPLANE\tTRUSTS\tPRESENTS\tRUNS ON\tREVISION\tLEAF EXPIRES\tRESTART DUE")
	for i := range members {
		m := &members[i]
		for j := range m.Planes {
			name, revision, leaf, due := "", "", "", ""
			if j == 0 {
				name, revision, leaf, due = string(m.Name), revisions(m.Facts), optional(m.Facts.LeafNotAfter), optional(m.Facts.RestartDue)
			}
			p := &m.Planes[j]
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, planeText(m, p),
				cmp.Or(strings.Join(p.Trusts, ", "), "-"), presentsText(p), runsOn(p), revision, leaf, due)
		}
	}
	_ = table.Flush()
	for i := range members {
		if m := &members[i]; m.Facts.Trouble != "" {
			fmt.Fprintf(&b, "  %s: %s\n", m.Name, said(m.Facts.Trouble))
		}
	}
	return b.String()
}

// planeText names the roles when a plane is not of one mind.
func planeText(m *rotation.MemberStatus, p *rotation.PlaneStatus) string {
	same := 0
	for i := range m.Planes {
		if m.Planes[i].Plane == p.Plane {
			same++
		}
	}
	if same > 1 {
		return p.Plane + " (" + strings.Join(p.Roles, ", ") + ")"
	}
	return p.Plane
}

func presentsText(p *rotation.PlaneStatus) string {
	switch {
	case p.Presents == "":
		return "-"
	case len(p.Cross) > 0:
		return p.Presents + ", cross-signed by " + strings.Join(p.Cross, ", ")
	default:
		return p.Presents
	}
}

// runsOn says since when nobody knows; of what is known the state is enough.
func runsOn(p *rotation.PlaneStatus) string {
	if p.Standing == rotation.Unproven && !p.Since.IsZero() {
		return string(p.Standing) + " since " + stamp(p.Since)
	}
	return string(p.Standing)
}

// revisions are shown as one number while they agree.
func revisions(f rotation.MemberFacts) string {
	switch {
	case f.Published == 0:
		return ""
	case f.Published == f.Mounted && f.Mounted == f.Loaded:
		return strconv.FormatInt(f.Published, 10)
	default:
		return fmt.Sprintf("%d (mounted %s, loaded %s)", f.Published, known(f.Mounted), known(f.Loaded))
	}
}

func known(revision int64) string {
	if revision == 0 {
		return "?"
	}
	return strconv.FormatInt(revision, 10)
}

func optional(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t)
}

func conditionsText(report statusReport) string {
	// What is said of the authorities above, and what follows from another condition, is not said twice.
	conditions := slices.DeleteFunc(slices.Clone(report.Conditions), func(c condition.Condition) bool {
		return kstatus.IsDerived(string(c.Type)) ||
			slices.ContainsFunc(report.Domains, func(d rotation.Status) bool { return c.Type == trustCondition(d.Domain) })
	})
	if len(conditions) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nCONDITIONS\n")
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	for _, c := range conditions {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, said(c.Message))
	}
	_ = table.Flush()
	return b.String()
}

// trustCondition is the type of the condition about the authority of a domain.
func trustCondition(domain string) condition.Type {
	if domain == string(authorities.Clients) {
		return "ClientsCATrust"
	}
	return "ClusterCATrust"
}
