package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimalUser = `
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: my-user, namespace: kafka, labels: {strimzi.io/cluster: my-cluster}}
spec:
  authentication: {type: tls}
`

func TestKafkaUserRules(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 65)
	tooLong := []string{"metadata: Invalid value: metadata.name must have at most 64 characters because it is the common name of the user's certificate"}
	runRules(t, kafkaUsers, minimalUser, map[string]ruleCase{
		"a minimal manifest is accepted":              {patch: `{}`},
		"a user without authentication is accepted":   {patch: `spec: {authentication: null}`},
		"a tls user of 64 characters is accepted":     {patch: `metadata: {name: ` + long[:64] + `}`},
		"a tls user of 65 characters is refused":      {patch: `metadata: {name: ` + long + `}`, want: tooLong},
		"a tls-external user of 65 is refused":        {patch: `{metadata: {name: ` + long + `}, spec: {authentication: {type: tls-external}}}`, want: tooLong},
		"a SCRAM user of 253 characters is accepted":  {patch: `{metadata: {name: ` + strings.Repeat("a", 253) + `}, spec: {authentication: {type: scram-sha-512}}}`},
		"both days are accepted":                      {patch: `spec: {authentication: {validityDays: 90, renewalDays: 30}}`},
		"an authentication that Kafka lacks":          {patch: `spec: {authentication: {type: oauth}}`, want: []string{`spec.authentication.type: Unsupported value: supported values: "tls", "tls-external", "scram-sha-512"`}},
		"a certificate's days without a certificate":  {patch: `spec: {authentication: {type: scram-sha-512, validityDays: 90, renewalDays: 30}}`},
		"one of the days without the other":           {patch: `spec: {authentication: {validityDays: 90}}`, want: []string{"spec.authentication: Invalid value: validityDays and renewalDays must be set together"}},
		"a certificate that is due when it is issued": {patch: `spec: {authentication: {validityDays: 30, renewalDays: 30}}`, want: []string{"spec.authentication: Invalid value: renewalDays must be less than validityDays because a certificate would otherwise be due for renewal when it is issued"}},
		"a certificate that is valid for zero days":   {patch: `spec: {authentication: {validityDays: 0, renewalDays: 0}}`, want: zeroDays()},
		"a password of a user with a certificate":     {patch: `spec: {authentication: {type: tls, password: {valueFrom: {secretKeyRef: {name: a, key: b}}}}}`},
		"a password from a Secret is accepted":        {patch: `spec: {authentication: {type: scram-sha-512, password: {valueFrom: {secretKeyRef: {name: a, key: b}}}}}`},
		"an ACL in the older form is accepted":        {patch: acls(`{resource: {type: topic, name: t}, operation: Read}`)},
		"an ACL of the whole cluster is accepted":     {patch: acls(`{resource: {type: cluster}, operations: [Describe]}`)},
		"an ACL with both forms of its operations":    {patch: acls(`{resource: {type: topic, name: t}, operation: Read, operations: [Write]}`), want: oneOperation()},
		"an ACL without an operation":                 {patch: acls(`{resource: {type: topic, name: t}}`), want: oneOperation()},
		"an ACL of a topic without a name":            {patch: acls(`{resource: {type: topic}, operations: [Read]}`), want: namedResource()},
		"an ACL of a cluster with a pattern":          {patch: acls(`{resource: {type: cluster, name: kafka-cluster, patternType: literal}, operations: [Read]}`)},
		"an ACL of a cluster with a name":             {patch: acls(`{resource: {type: cluster, name: c}, operations: [Read]}`)},
		"an ACL with an operation that Kafka lacks":   {patch: acls(`{resource: {type: topic, name: t}, operations: [Eat]}`), want: []string{`spec.authorization.acls[0].operations[0]: Unsupported value: supported values: "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs", "DescribeConfigs", "IdempotentWrite", "All"`}},
		"a quota below zero":                          {patch: `spec: {quotas: {producerByteRate: -1}}`, want: []string{"spec.quotas.producerByteRate: Invalid value: spec.quotas.producerByteRate in body should be greater than or equal to 0"}},
		"a quota is accepted":                         {patch: `spec: {quotas: {producerByteRate: 1}}`},
	})
}

func acls(rules string) string {
	return "spec: {authorization: {type: simple, acls: [" + rules + "]}}"
}

func oneOperation() []string {
	return []string{"spec.authorization.acls[0]: Invalid value: exactly one of operation and operations must be set: operations takes any number"}
}

func namedResource() []string {
	return []string{"spec.authorization.acls[0].resource: Invalid value: name must be set unless type is cluster"}
}

func zeroDays() []string {
	return []string{
		"spec.authentication.renewalDays: Invalid value: spec.authentication.renewalDays in body should be greater than or equal to 1",
		"spec.authentication.validityDays: Invalid value: spec.authentication.validityDays in body should be greater than or equal to 1",
	}
}

const minimalAccess = `
apiVersion: access.strimzi.io/v1alpha1
kind: KafkaAccess
metadata: {name: my-application, namespace: kafka}
spec:
  kafka: {name: my-cluster}
`

const truststoreMessage = "spec.kafka.truststoreRef: Invalid value: truststoreRef must have either system or both secretName and key because a client trusts one set of CAs"

func TestKafkaAccessRules(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, kafkaAccesses, "v1alpha1")
	for name, test := range map[string]ruleCase{
		"a minimal manifest is accepted":     {patch: `{}`},
		"a user is accepted":                 {patch: `spec: {user: {kind: KafkaUser, apiGroup: kafka.strimzi.io, name: my-user}}`},
		"the CAs of the system are accepted": {patch: `spec: {kafka: {truststoreRef: {system: true}}}`},
		"the CAs of a Secret are accepted":   {patch: `spec: {kafka: {truststoreRef: {secretName: my-root, key: ca.crt}}}`},
		"CAs come from one place": {
			patch: `spec: {kafka: {truststoreRef: {system: true, secretName: my-root, key: ca.crt}}}`,
			want:  []string{truststoreMessage},
		},
		"a Secret with CAs needs its key": {
			patch: `spec: {kafka: {truststoreRef: {secretName: my-root}}}`,
			want:  []string{truststoreMessage},
		},
		"a cluster is needed": {patch: `spec: {kafka: {name: null}}`, want: []string{"spec.kafka.name: Required value: "}},
		"a user needs its kind, group and name": {
			patch: `spec: {user: {namespace: kafka}}`,
			want:  []string{"spec.user.apiGroup: Required value: ", "spec.user.kind: Required value: ", "spec.user.name: Required value: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, got := admission.admit(t, merged(t, minimalAccess, test.patch))
			want := test.want
			if want == nil {
				want = []string{}
				decodeTyped(t, stored)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused for other reasons than expected (-want +got):\n%s", diff)
			}
		})
	}
}

const minimalProposedAccess = `
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaAccess
metadata: {name: my-application, namespace: kafka}
spec:
  kafka: {name: my-cluster}
`

func TestProposedKafkaAccessRules(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, proposedAccesses, "v1beta2")
	for name, test := range map[string]ruleCase{
		"a minimal manifest is accepted": {patch: `{}`},
		"a user needs its kind and name": {patch: `spec: {user: {namespace: kafka}}`, want: []string{"spec.user.kind: Required value: ", "spec.user.name: Required value: "}},
		"a listener needs its name":      {patch: `spec: {kafka: {listener: {}}}`, want: []string{"spec.kafka.listener.name: Required value: "}},
		"a listener is no text":          {patch: `spec: {kafka: {listener: tls}}`, want: []string{`spec.kafka.listener: Invalid value: spec.kafka.listener in body must be of type object: "string"`}},
		"a Kafka has a known version":    {patch: `spec: {kafka: {apiVersion: kafka.strimzi.io/v9}}`, want: []string{`spec.kafka.apiVersion: Unsupported value: supported values: "kafka.strimzi.io/v1", "kafka.strimzi.io/v1beta2"`}},
		"a user has a known version": {
			patch: `spec: {user: {apiVersion: kafka.strimzi.io/v9, kind: KafkaUser, name: my-user}}`,
			want:  []string{`spec.user.apiVersion: Unsupported value: supported values: "kafka.strimzi.io/v1", "kafka.strimzi.io/v1beta2"`},
		},
		"both versions are accepted":      {patch: `spec: {kafka: {apiVersion: kafka.strimzi.io/v1}, user: {apiVersion: kafka.strimzi.io/v1beta2, kind: KafkaUser, name: my-user}}`},
		"the kind of a user may be wrong": {patch: `spec: {user: {kind: Secret, name: my-user}}`}, // a condition says so
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, got := admission.admit(t, merged(t, minimalProposedAccess, test.patch))
			want := test.want
			if want == nil {
				want = []string{}
				decodeTyped(t, stored)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused for other reasons than expected (-want +got):\n%s", diff)
			}
		})
	}
}
