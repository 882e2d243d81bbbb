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
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
)

// Conditions about certificates. They are True when nothing is left to do that
// somebody waits for.
const (
	conditionClusterCATrust    condition.Type = "ClusterCATrust"
	conditionClientsCATrust    condition.Type = "ClientsCATrust"
	conditionCertificatesValid condition.Type = "CertificatesValid"
	reasonValid                               = "Valid"
	reasonExpired                             = "Expired"
)

// trustConditions say where each authority stands, and whether every certificate
// is valid. There are none before trust was decided.
func (p *pass) trustConditions() []wanted {
	if p.clusterCA.Plan.States == nil {
		return nil
	}
	return []wanted{
		p.trustCondition(conditionClusterCATrust, &p.clusterCA),
		p.trustCondition(conditionClientsCATrust, &p.clientsCA),
		p.validity(),
	}
}

// writtenConditions are the same for a pass that has not written what it decided:
// where an authority was to become another one, they stay as they are, and so do all where
// nothing was decided. Only what has ended has ended, whatever was to become of it.
func (p *pass) writtenConditions() []wanted {
	kept := p.trustConditions()
	if len(kept) == 0 {
		return p.said(ofTrust)
	}
	moved := map[condition.Type]bool{
		conditionClusterCATrust: len(p.clusterCA.Transitions) > 0,
		conditionClientsCATrust: len(p.clientsCA.Transitions) > 0,
	}
	ended := p.expired()
	moved[conditionCertificatesValid] = moved[conditionClusterCATrust] || moved[conditionClientsCATrust] || ended.kind != ""
	kept = slices.DeleteFunc(kept, func(w wanted) bool { return moved[w.kind] })
	if ended.kind != "" {
		moved[conditionCertificatesValid] = false
		w := holds(conditionCertificatesValid, reasonExpired, ended.message)
		w.status = condition.False
		kept = append(kept, w)
	}
	return append(kept, p.said(func(kind condition.Type) bool { return moved[kind] })...)
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
func (p *pass) said(include func(condition.Type) bool) []wanted {
	var list []wanted
	for _, c := range p.kafka.Status.Conditions {
		if include(c.Type) {
			w := holds(c.Type, c.Reason, c.Message)
			w.status = c.Status
			list = append(list, w)
		}
	}
	return list
}

func (p *pass) trustCondition(kind condition.Type, d *domain) wanted {
	phase := authorities.Words().PhaseOf(d.Snapshot, d.Plan)
	w := holds(kind, string(phase), d.message(p.kafka.Name))
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
func (p *pass) validity() wanted {
	var expired []certificateFigure
	first := certificateFigure{}
	for _, c := range p.certificateFigures() {
		if !p.now.Before(c.notAfter) {
			expired = append(expired, c)
		}
		if first.notAfter.IsZero() || c.notAfter.Before(first.notAfter) {
			first = c
		}
	}
	if len(expired) == 0 {
		return holds(conditionCertificatesValid, reasonValid,
			fmt.Sprintf("the first to expire is %s, at %s", first.words(), first.notAfter.UTC().Format(time.RFC3339)))
	}
	w := holds(conditionCertificatesValid, reasonExpired, p.expiry(expired))
	w.status = condition.False
	return w
}

// expiry says of certificates that have expired who can do something about it. Those of
// listeners are replaced by whoever brought them, so no condition tells of their renewal.
func (p *pass) expiry(expired []certificateFigure) string {
	var renewed, brought []string
	tell := map[string]bool{}
	for _, c := range expired {
		at := c.notAfter.UTC().Format(time.RFC3339)
		if c.kind == figureOfListener {
			brought = append(brought, fmt.Sprintf("%s, from %s, expired at %s: replace it in that Secret",
				c.words(), p.customSecret(publication.Role(c.name)), at))
			continue
		}
		renewed = append(renewed, fmt.Sprintf("%s expired at %s", c.words(), at))
		tell[string(c.trust())] = true
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

// trust is the condition of the authority that a certificate is, or is issued by.
func (c certificateFigure) trust() condition.Type {
	if c.kind == figureOfAuthority && c.name == string(authorities.Clients) {
		return conditionClientsCATrust
	}
	return conditionClusterCATrust
}

// words are what people call a certificate.
func (c certificateFigure) words() string {
	switch c.kind {
	case figureOfAuthority:
		return "the CA certificate of the " + c.name
	case figureOfOperator:
		return "the operator's certificate in Secret " + c.name
	default:
		return "the certificate of " + c.kind + " " + c.name
	}
}

// presentAuthorities are the CA certificates that are present, by their kind.
func (p *pass) presentAuthorities() []certificateFigure {
	var list []certificateFigure
	for _, kind := range kinds() {
		d := p.domain(kind)
		if d.Certificate == nil {
			continue
		}
		list = append(list, certificateFigure{
			kind: figureOfAuthority, name: string(kind), notAfter: d.Certificate.NotAfter,
			caType: cmp.Or(map[authorities.Kind]string{authorities.Clients: "client-ca"}[kind], string(kind)),
		})
	}
	return list
}
