package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// Reasons of warnings about what is written in a KafkaUser and does nothing.
const (
	FieldsWithoutEffect     Reason = "FieldsWithoutEffect"
	AnnotationWithoutEffect Reason = Reason(kafkamodel.ReasonIdleAnnotation)
	ACLWithoutEffect        Reason = "ACLWithoutEffect"
)

// warnOfIdle names fields, annotations and ACLs of the user that have no effect.
func (o Observed) warnOfIdle(d *Decision) {
	if fields := idleFields(o.User); len(fields) > 0 {
		d.warn(FieldsWithoutEffect, fmt.Sprintf("Fields have no effect beside the type that they stand with: %s. Remove them, or change the type.",
			excerpt.List(fields, ", ", excerpt.Listed)))
	}
	for _, unread := range kafkamodel.IdleUserAnnotations(o.User.Annotations, o.SecretName) {
		d.warn(AnnotationWithoutEffect, "The annotation "+excerpt.Of(unread.Key, excerpt.Value)+" "+unread.Why+".")
	}
	if doubts := doubtfulACLs(o.User.Spec.Authorization); len(doubts) > 0 {
		d.warn(ACLWithoutEffect, excerpt.First(doubts, excerpt.Named, " "))
	}
}

// idleFields are paths below spec.
func idleFields(user *kafkav1.KafkaUser) []string {
	var idle []string
	note := func(isIdle bool, path string) {
		if isIdle {
			idle = append(idle, path)
		}
	}
	if authentication := user.Spec.Authentication; authentication != nil {
		note(authentication.Password != nil && authentication.Type != kafkav1.UserSCRAM, "spec.authentication.password")
		note(authentication.ValidityDays != nil && authentication.Type != kafkav1.UserTLS, "spec.authentication.validityDays")
		note(authentication.RenewalDays != nil && authentication.Type != kafkav1.UserTLS, "spec.authentication.renewalDays")
	}
	if user.Spec.Authorization == nil {
		return idle
	}
	for i, rule := range user.Spec.Authorization.ACLs {
		isCluster, path := rule.Resource.Type == kafkav1.ACLCluster, fmt.Sprintf("spec.authorization.acls[%d].resource", i)
		note(isCluster && !slices.Contains([]string{"", "*", principal.ClusterName}, rule.Resource.Name), path+".name")
		note(isCluster && rule.Resource.PatternType == kafkav1.ACLPrefix, path+".patternType")
	}
	return idle
}

// doubtfulACLs are sentences about ACLs that are no mistake to Kafka, and apply to nothing that their author can have meant.
func doubtfulACLs(authorization *kafkav1.UserAuthorization) []string {
	if authorization == nil {
		return nil
	}
	var doubts []string
	for i, rule := range authorization.ACLs {
		path := fmt.Sprintf("spec.authorization.acls[%d]", i)
		if _, err := netip.ParseAddr(rule.Host); err != nil && rule.Host != "" && rule.Host != principal.AnyHost {
			doubts = append(doubts, fmt.Sprintf("%s.host is %q, which is the address of no client: Kafka compares it with one IP address as text, and knows "+
				"neither networks nor names. Write one ACL for each address, or none.", path, excerpt.Of(rule.Host, excerpt.Value)))
		}
		isPrefix := rule.Resource.PatternType == kafkav1.ACLPrefix && rule.Resource.Type != kafkav1.ACLCluster
		if isPrefix && strings.Contains(rule.Resource.Name, "*") {
			doubts = append(doubts, fmt.Sprintf("%s.resource.name is %q with patternType prefix, which stands for names with an asterisk in them. "+
				"Write the prefix without it, or * with patternType literal for all names.", path, excerpt.Of(rule.Resource.Name, excerpt.Value)))
		}
	}
	return doubts
}

// warnOfEnd tells of a certificate that is due and stays, because another one would end with its CA, too.
func (o Observed) warnOfEnd(d *Decision) {
	_, end := Lifetime(o.stored())
	if o.CA.Signer.IsZero() || o.Now.Before(end.Add(-o.certificate().Renewal)) || !o.Now.Before(end) {
		return
	}
	d.warn(EndsWithCA, fmt.Sprintf("The certificate is valid until %s, as long as the clients CA, and another one would be, too. Renew the clients CA.",
		end.UTC().Format(time.RFC3339)))
}
