package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
)

// Conditions about certificates. They are True when no unfinished step is waited for.
const (
	conditionClusterCATrust    condition.Type = "ClusterCATrust"
	conditionClientsCATrust    condition.Type = "ClientsCATrust"
	conditionCertificatesValid condition.Type = "CertificatesValid"
	reasonValid                               = "Valid"
	reasonExpired                             = "Expired"
)

// trustConditions say where each authority stands, and whether every certificate
// is valid. There are none before trust was decided.
func (c *applied) trustConditions() []wanted {
	if c.clusterCA.Plan.States == nil {
		return nil
	}
	return []wanted{
		c.trustCondition(conditionClusterCATrust, &c.clusterCA),
		c.trustCondition(conditionClientsCATrust, &c.clientsCA),
		c.validity(),
	}
}

// writtenConditions are the same for a reconcile that has not written what it decided:
// where an authority was to become another one, they stay as they are, and so do all where
// nothing was decided. Only what has ended has ended, whatever was to become of it.
func (c *applied) writtenConditions() []wanted {
	kept := c.trustConditions()
	if len(kept) == 0 {
		return c.said(ofTrust)
	}
	moved := map[condition.Type]bool{
		conditionClusterCATrust: len(c.clusterCA.Transitions) > 0,
		conditionClientsCATrust: len(c.clientsCA.Transitions) > 0,
	}
	ended := c.expired()
	moved[conditionCertificatesValid] = moved[conditionClusterCATrust] || moved[conditionClientsCATrust] || ended.kind != ""
	kept = slices.DeleteFunc(kept, func(w wanted) bool { return moved[w.kind] })
	if ended.kind != "" {
		moved[conditionCertificatesValid] = false
		w := holds(conditionCertificatesValid, reasonExpired, ended.message)
		w.status = condition.False
		kept = append(kept, w)
	}
	return append(kept, c.said(func(kind condition.Type) bool { return moved[kind] })...)
}

// ofTrust reports whether a condition says where the trust of the cluster stands.
func ofTrust(kind condition.Type) bool {
	return kind == conditionClusterCATrust || kind == conditionClientsCATrust || kind == conditionCertificatesValid
}

// ofReadiness reports whether a condition says that the cluster is ready or why it is not.
func ofReadiness(kind condition.Type) bool {
	return kind == condition.Ready || kind == condition.NotReady
}

// said are the conditions of some types as the status has them.
func (o *observation) said(include func(condition.Type) bool) []wanted {
	var list []wanted
	for _, present := range o.kafka.Status.Conditions {
		if include(present.Type) {
			w := holds(present.Type, present.Reason, present.Message)
			w.status = present.Status
			list = append(list, w)
		}
	}
	return list
}

func (o *observation) trustCondition(kind condition.Type, d *domain) wanted {
	phase := authorities.Words().PhaseOf(d.Snapshot, d.Plan)
	w := holds(kind, string(phase), d.message(o.kafka.Name))
	if !authorities.Words().Settled(phase) {
		w.status = condition.False
	}
	return w
}

// message says where the authority of a cluster stands, and why it is refused if it is.
func (d *domain) message(cluster string) string {
	words := authorities.Words()
	return words.Message(d.Snapshot, d.Plan, words.Subject(cluster, string(d.kind), d.Names())) + rotation.Refusal(d.Refusal())
}

// validity names what has expired, or what ends first.
func (c *applied) validity() wanted {
	var expired []metrics.Certificate
	first := metrics.Certificate{}
	for _, figure := range c.certificateFigures() {
		if !c.now.Before(figure.NotAfter) {
			expired = append(expired, figure)
		}
		if first.NotAfter.IsZero() || figure.NotAfter.Before(first.NotAfter) {
			first = figure
		}
	}
	if len(expired) == 0 {
		return holds(conditionCertificatesValid, reasonValid,
			fmt.Sprintf("the first to expire is %s, at %s", nameOfCertificate(first), first.NotAfter.UTC().Format(time.RFC3339)))
	}
	w := holds(conditionCertificatesValid, reasonExpired, c.expiry(expired))
	w.status = condition.False
	return w
}

// expiry is the message about expired certificates. It refers to the conditions that explain why
// they are not renewed. Users replace listener certificates, so for these it names the Secret.
func (c *desired) expiry(expired []metrics.Certificate) string {
	var renewed, brought []string
	tell := map[string]bool{}
	for _, figure := range expired {
		at := figure.NotAfter.UTC().Format(time.RFC3339)
		if figure.Kind == metrics.OfListener {
			brought = append(brought, fmt.Sprintf("%s, from %s, expired at %s: replace it in that Secret",
				nameOfCertificate(figure), c.customSecret(publication.Role(figure.Name)), at))
			continue
		}
		renewed = append(renewed, fmt.Sprintf("%s expired at %s", nameOfCertificate(figure), at))
		tell[string(trustConditionOf(figure))] = true
	}
	var sentences []string
	if len(renewed) > 0 {
		slices.Sort(renewed)
		sentences = append(sentences, fmt.Sprintf("%s; see conditions %s and %s for why they are not renewed",
			excerpt.List(renewed, "; ", excerpt.Listed), strings.Join(slices.Sorted(maps.Keys(tell)), ", "), condition.Warning))
	}
	if len(brought) > 0 {
		slices.Sort(brought)
		sentences = append(sentences, excerpt.List(brought, "; ", excerpt.Listed))
	}
	return strings.Join(sentences, "; ")
}

// trustConditionOf is the condition of the CA that a certificate is, or is issued by.
func trustConditionOf(certificate metrics.Certificate) condition.Type {
	if certificate.Kind == metrics.OfAuthority && certificate.Name == string(authorities.Clients) {
		return conditionClientsCATrust
	}
	return conditionClusterCATrust
}

// nameOfCertificate is how people are told of a certificate.
func nameOfCertificate(certificate metrics.Certificate) string {
	switch certificate.Kind {
	case metrics.OfAuthority:
		return "the CA certificate of the " + certificate.Name
	case metrics.OfOperator:
		return "the operator's certificate in Secret " + certificate.Name
	default:
		return "the certificate of " + certificate.Kind + " " + certificate.Name
	}
}

// presentAuthorities are the CA certificates that are present, by their kind.
func (c *decided) presentAuthorities() []metrics.Certificate {
	var list []metrics.Certificate
	for _, kind := range kinds() {
		d := c.domain(kind)
		if d.Certificate == nil {
			continue
		}
		list = append(list, metrics.Certificate{
			Kind: metrics.OfAuthority, Name: string(kind), NotAfter: d.Certificate.NotAfter,
			CAType: cmp.Or(map[authorities.Kind]string{authorities.Clients: "client-ca"}[kind], string(kind)),
		})
	}
	return list
}
