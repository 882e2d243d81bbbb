package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// statusList is what "keyturn status --all-namespaces" says.
type statusList struct {
	Items []statusReport `json:"items"`
}

// overview looks at all Kafkas. One whose record cannot be read says so in its
// place, and keeps nobody from seeing the others.
func (c connection) overview(ctx context.Context) (sight, error) {
	kafkas := &kafkav1.KafkaList{}
	if err := c.client.List(ctx, kafkas); err != nil {
		const rights = "list kafkas.kafka.strimzi.io and get configmaps in all namespaces, by a ClusterRole"
		return sight{}, withRights(uninstalled(fmt.Errorf("listing the Kafkas of all namespaces: %w", err)), rights)
	}
	list := statusList{Items: []statusReport{}}
	for i := range kafkas.Items {
		kafka := &kafkas.Items[i]
		one := cluster{connection: c, name: kafka.Name}
		one.namespace = kafka.Namespace
		report, err := one.status(ctx, kafka)
		if ctx.Err() != nil {
			return sight{}, ctx.Err()
		}
		if err != nil {
			report.Message = fmt.Sprintf("Its certificates are not shown: %v", err)
		}
		list.Items = append(list.Items, report)
	}
	text := overviewText(list)
	return sight{value: list, text: text, timeless: text}, nil
}

func overviewText(list statusList) string {
	if len(list.Items) == 0 {
		return "There is no Kafka in any namespace.\n"
	}
	var b, notes strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAMESPACE\tNAME\tREADY\tCLUSTER CA\tCLIENTS CA\tWARNINGS")
	for i := range list.Items {
		s := &list.Items[i]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Cluster, readiness(s.Conditions),
			phaseOf(s, string(authorities.Cluster)), phaseOf(s, string(authorities.Clients)), warnings(s.Conditions))
		if note := cmp.Or(refusal(s.Conditions), s.Message); note != "" {
			fmt.Fprintf(&notes, "kafka/%s (namespace %s): %s\n", s.Cluster, s.Namespace, said(note))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	if notes.Len() > 0 {
		b.WriteString("\n" + notes.String())
	}
	return trimmed(b.String())
}

// readiness is True, or False with the reason, as far as the operator has said.
func readiness(conditions []condition.Condition) string {
	for _, word := range []struct {
		about condition.Type
		says  string
	}{{condition.ReconciliationPaused, "Paused"}, {condition.NotReady, "False"}, {condition.Ready, "True"}} {
		i := slices.IndexFunc(conditions, func(c condition.Condition) bool { return c.Type == word.about && c.Status == condition.True })
		if i < 0 {
			continue
		}
		if reason := conditions[i].Reason; word.about == condition.NotReady && reason != "" {
			return word.says + " (" + reason + ")"
		}
		return word.says
	}
	return "Unknown"
}

// refusal is what the operator says of a Kafka that is not ready; empty of others.
func refusal(conditions []condition.Condition) string {
	for i := range conditions {
		if c := &conditions[i]; c.Type == condition.NotReady && c.Status == condition.True {
			return c.Message
		}
	}
	return ""
}

func phaseOf(s *statusReport, domain string) string {
	for i := range s.Domains {
		if s.Domains[i].Domain == domain {
			return string(s.Domains[i].Phase)
		}
	}
	return "-"
}

func warnings(conditions []condition.Condition) string {
	count := 0
	for i := range conditions {
		if conditions[i].Type == condition.Warning && conditions[i].Status == condition.True {
			count++
		}
	}
	return strconv.Itoa(count)
}
