package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/idle"
)

func TestAnAnnotationThatNobodyActsOnIsNamed(t *testing.T) {
	t.Parallel()
	onKafka := func(annotation, value string) func(*Input) {
		return func(in *Input) { in.Kafka.Annotations = map[string]string{annotation: value} }
	}
	onPool := func(annotation, value string) func(*Input) {
		return func(in *Input) { in.Pools[0].Annotations = map[string]string{annotation: value} }
	}
	const kafka, pool = "Kafka kafka/my", "KafkaNodePool kafka/dual"
	for name, test := range map[string]struct {
		change func(*Input)
		object string
		says   []string
	}{
		"a pause that is nearly right": {
			onKafka("strimzi.io/pause-reconciliations", "true"), kafka, []string{"strimzi.io/pause-reconciliations", "misspelled", "strimzi.io/pause-reconciliation"},
		},
		"a pause in other words": {
			onKafka("strimzi.io/pause-reconciliation", "yes"), kafka, []string{"strimzi.io/pause-reconciliation", `"yes"`, `"true" or "false"`},
		},
		"a misspelled switch of the operator's own": {
			onKafka("keyturn.dev/relaod", "false"), kafka, []string{"keyturn.dev/relaod", "keyturn.dev/reload"},
		},
		"a request that belongs on a Secret": {
			onKafka("strimzi.io/force-replace", "true"), kafka, []string{"strimzi.io/force-replace", "has no effect on a Kafka"},
		},
		"a cluster without KRaft": {
			onKafka("strimzi.io/kraft", "disabled"), kafka, []string{"strimzi.io/kraft", "with KRaft"},
		},
		"a pause of one pool": {
			onPool("strimzi.io/pause-reconciliation", "true"), pool, []string{"has no effect on a KafkaNodePool", "strimzi.io/next-node-ids"},
		},
		"misspelled node ids": {
			onPool("strimzi.io/next-node-id", "[5]"), pool, []string{"strimzi.io/next-node-id ", "misspelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			test.change(&in)
			_, findings := resolved(t, in)
			at := slices.IndexFunc(findings.Warnings, func(f Finding) bool { return f.Object == test.object && f.Reason == ReasonIdleAnnotation })
			if at < 0 {
				t.Fatalf("warnings: %v", findings.Warnings)
			}
			for _, want := range test.says {
				if !strings.Contains(findings.Warnings[at].Message, want) {
					t.Errorf("%q does not say %q", findings.Warnings[at].Message, want)
				}
			}
		})
	}
}

func TestAnAnnotationThatSomebodyActsOnIsNotNamed(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Annotations = map[string]string{
		"strimzi.io/kraft": "enabled", "strimzi.io/node-pools": "enabled", "strimzi.io/pause-reconciliation": "False",
		"strimzi.io/skip-broker-scaledown-check": "true", "keyturn.dev/reload": "false", "keyturn.dev/allow-shared-ca": "true",
		"keyturn.dev/access-from": "apps", "example.com/pause": "yes",
	}
	in.Pools[0].Annotations = map[string]string{"strimzi.io/next-node-ids": "[5]", "strimzi.io/remove-node-ids": "[5]"}
	if _, findings := resolved(t, in); len(findings.Warnings) > 0 {
		t.Errorf("warnings: %v", findings.Warnings)
	}
}

// Whatever the operator writes on pods and sets is no request.
func TestNobodyIsToldOfAnnotationsThatTheOperatorWrites(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, exampleInput())
	set, err := cluster.PodSet(cluster.Pools[0], nil)
	must(t, err)
	pod := annotations(t, exampleInput(), PodAnnotations{ServerCertHash: "a", ListenerCertThumbprints: map[string]string{"tls": "b"}, Pin: "c"})
	pod[agent.PublishedAnnotation], pod[agent.GivenAnnotation] = "3", "{}"

	if idle := slices.Concat(IdlePodAnnotations(pod), IdlePodSetAnnotations(set.Annotations)); len(idle) > 0 {
		t.Errorf("it is said: %+v", idle)
	}
}

func TestTheCheckOfLeavingBrokersIsSkippedInAnyCaseOfLetters(t *testing.T) {
	t.Parallel()
	for value, skips := range map[string]bool{"true": true, "True": true, "TRUE": true, "false": false, "yes": false, "": false} {
		in := exampleInput()
		in.Kafka.Annotations = map[string]string{"strimzi.io/skip-broker-scaledown-check": value}
		if cluster, _ := resolved(t, in); cluster.SkipScaleDownCheck != skips {
			t.Errorf("%q skips it: %t", value, cluster.SkipScaleDownCheck)
		}
	}
}

func TestARestartThatIsAskedForIsNotSaidToHaveNoEffect(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"true", "True", "false"} {
		asked := map[string]string{ManualRollingUpdateAnnotation: value, DeletePodAndClaimsAnnotation: value}
		if idle := IdlePodAnnotations(asked); len(idle) > 0 {
			t.Errorf("of a pod it is said: %v", idle)
		}
		delete(asked, DeletePodAndClaimsAnnotation)
		if idle := IdlePodSetAnnotations(asked); len(idle) > 0 {
			t.Errorf("of a pod set it is said: %v", idle)
		}
	}
}

func TestOfManyAnnotationsWithoutEffectTheFirstFewAreTold(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{ManualRollingUpdateAnnotation: "soon"}
	for i := range 100 {
		annotations[fmt.Sprintf("strimzi.io/misspelled-%d", i)] = "true"
	}
	if found := IdlePodAnnotations(annotations); len(found) != idle.Max+1 || found[idle.Max].Key != ManualRollingUpdateAnnotation {
		t.Errorf("%d are told, want %d and the restart that is none", len(found), idle.Max)
	}
}
