package model

import (
	"fmt"
	"slices"
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// Username is what Kafka knows a user by: its common name where it has a certificate, else its name.
func Username(user *kafkav1.KafkaUser) string {
	if hasCertificate(user) {
		return commonName + user.Name
	}
	return user.Name
}

// commonName begins the user names of certificates.
const commonName = "CN="

// Usernames are all by which Kafka can know a KafkaUser, whatever its authentication is now or was before.
func Usernames(name string) [2]string { return [2]string{name, commonName + name} }

func hasCertificate(user *kafkav1.KafkaUser) bool {
	authentication := user.Spec.Authentication
	return authentication != nil && (authentication.Type == kafkav1.UserTLS || authentication.Type == kafkav1.UserTLSExternal)
}

func hasPassword(user *kafkav1.KafkaUser) bool {
	authentication := user.Spec.Authentication
	return authentication != nil && authentication.Type == kafkav1.UserSCRAM
}

// IsInKafka reports whether Kafka shall hold something for a user. What Kafka holds for others is not looked at.
func IsInKafka(user *kafkav1.KafkaUser) bool {
	return user.Spec.Authorization != nil || user.Spec.Quotas != nil || hasPassword(user)
}

// Wanted is what Kafka shall hold for a user under its user name.
func Wanted(user *kafkav1.KafkaUser) principal.Held {
	return principal.Held{ACLs: acls(user.Spec.Authorization), Quotas: quotas(user.Spec.Quotas), HasPassword: hasPassword(user)}
}

// Plan is what to change in Kafka, by user name. All that is added comes before all that is removed.
type Plan []UserChange

// UserChange is what to change for one user name.
type UserChange struct {
	principal.Change

	Username string
}

// PlanChange makes Kafka hold what a user wants under its user name and nothing under the other one.
func PlanChange(user *kafkav1.KafkaUser, held func(username string) principal.Held, authorizes bool) Plan {
	wanted := Wanted(user)
	if !authorizes {
		wanted.ACLs = nil
	}
	return plan(user, wanted, held)
}

// PlanRemoval makes Kafka hold nothing for a user.
func PlanRemoval(user *kafkav1.KafkaUser, held func(username string) principal.Held) Plan {
	return plan(user, principal.Held{}, held)
}

func plan(user *kafkav1.KafkaUser, wanted principal.Held, held func(username string) principal.Held) Plan {
	var p Plan
	for _, name := range Usernames(user.Name) {
		shall := principal.Held{}
		if name == Username(user) {
			shall = wanted
		}
		if change := principal.Diff(held(name), shall); !change.IsNone() {
			p = append(p, UserChange{change, name})
		}
	}
	return p
}

// WithLimitsKept removes rights, and nothing that limits the user.
func (p Plan) WithLimitsKept() Plan {
	kept := make(Plan, 0, len(p))
	for _, of := range p {
		of.Change = of.WithLimitsKept()
		kept = append(kept, of)
	}
	return kept
}

// acls are the bindings of rules: one for each operation.
func acls(authorization *kafkav1.UserAuthorization) []principal.ACL {
	if authorization == nil {
		return nil
	}
	var bindings []principal.ACL
	for _, rule := range authorization.ACLs {
		operations := rule.Operations
		if rule.Operation != "" {
			operations = append(slices.Clip(operations), rule.Operation)
		}
		for _, operation := range operations {
			bindings = append(bindings, binding(rule, operation))
		}
	}
	return principal.Sorted(bindings)
}

func binding(rule kafkav1.ACLRule, operation kafkav1.ACLOperation) principal.ACL {
	acl := principal.ACL{
		Type: resourceType(rule.Resource.Type), Name: rule.Resource.Name, Pattern: principal.Literal,
		Host: rule.Host, Operation: operationCode(operation), Permission: principal.Allow,
	}
	switch {
	case acl.Type == principal.Cluster:
		acl.Name = principal.ClusterName
	case rule.Resource.PatternType == kafkav1.ACLPrefix:
		acl.Pattern = principal.Prefixed
	}
	if acl.Host == "" {
		acl.Host = principal.AnyHost
	}
	if rule.Type == kafkav1.ACLDeny {
		acl.Permission = principal.Deny
	}
	return acl
}

func resourceType(kind kafkav1.ACLResourceType) principal.ResourceType {
	return map[kafkav1.ACLResourceType]principal.ResourceType{
		kafkav1.ACLTopic: principal.Topic, kafkav1.ACLGroup: principal.Group,
		kafkav1.ACLCluster: principal.Cluster, kafkav1.ACLTransactionalID: principal.TransactionalID,
	}[kind]
}

func operationCode(operation kafkav1.ACLOperation) principal.Operation {
	return map[kafkav1.ACLOperation]principal.Operation{
		"Read": principal.Read, "Write": principal.Write, "Create": principal.Create, "Delete": principal.Delete,
		"Alter": principal.Alter, "Describe": principal.Describe, "ClusterAction": principal.ClusterAction,
		"AlterConfigs": principal.AlterConfigs, "DescribeConfigs": principal.DescribeConfigs,
		"IdempotentWrite": principal.IdempotentWrite, "All": principal.All,
	}[operation]
}

func quotas(spec *kafkav1.UserQuotas) map[principal.Quota]float64 {
	if spec == nil {
		return nil
	}
	values := map[principal.Quota]float64{}
	for key, value := range map[principal.Quota]*int32{
		principal.ProducerByteRate: spec.ProducerByteRate, principal.ConsumerByteRate: spec.ConsumerByteRate,
		principal.RequestPercentage: spec.RequestPercentage,
	} {
		if value != nil {
			values[key] = float64(*value)
		}
	}
	if spec.ControllerMutationRate != nil {
		values[principal.ControllerMutationRate] = *spec.ControllerMutationRate
	}
	return values
}

// WithoutAuthorization is the problem of a user with ACLs whose Kafka cluster authorizes no user.
func WithoutAuthorization(kafka *kafkav1.Kafka) Remark {
	why, remedy := "has no authorization", "Set spec.kafka.authorization.type of the Kafka to simple, or remove spec.authorization of the user."
	if kafka.Spec.Kafka.Authorization != nil {
		why, remedy = "does not authorize yet", "Wait until its nodes have restarted."
	}
	return Remark{AuthorizationDisabled, fmt.Sprintf("Kafka %s %s. The ACLs of the user are not created, and every client may do everything. %s", kafka.Name, why, remedy)}
}

// Unmanaged names the users that Kafka holds something for and that are no KafkaUsers, in alphabetical
// order. The wildcard user and clients without authentication are not users.
func Unmanaged(held map[string]principal.Held, isKafkaUser func(name string) bool) []string {
	names := []string{}
	for username, of := range held {
		if !of.Equal(principal.Held{}) && username != "*" && username != "ANONYMOUS" && !belongs(username, isKafkaUser) {
			names = append(names, username)
		}
	}
	slices.Sort(names)
	return names
}

func belongs(username string, isKafkaUser func(name string) bool) bool {
	if isKafkaUser(username) {
		return true
	}
	name, is := strings.CutPrefix(username, commonName)
	return is && isKafkaUser(name)
}
