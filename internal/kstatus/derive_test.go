package kstatus

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// harmless are the reasons of warnings, of resources that are ready, and of conditions that say nothing of readiness.
func harmless() []string {
	return []string{
		// Kafka
		"AgentSilent", "AnnotationWithoutEffect", "CertificateAuthority", "CertificateIssuer", "CertificateShortLived", "DiffersFromSpec", "Expired",
		"FieldsWithoutEffect", "ForbiddenConfig", "ForeignPod", "NodeWithoutCertificate", "SecretsUnread", "SharedIssuer",
		"KafkaDefaultReplicationFactor", "KafkaInternalTopicReplication", "KafkaKRaftControllerNodeCount", "KafkaKRaftControllerSet",
		"KafkaMetadataVersion", "KafkaMinInsyncReplicas", "KafkaNodeIds", "KafkaStorage", "ListenerCertificate",
		"ListenerCertificateChain", "ListenerCertificateExpiring", "ListenerCertificatesNotShown", "ListenerNameMissing",
		"MaintenanceTimeWindows", "MoreWarnings", "NetworkPoliciesOff", "ReconciliationPaused", "ScaleDownPreventionCheck",
		"TrustNotRecorded", "UnknownFields", "Valid", "WatchDenied",
		// KafkaUser, KafkaAccess
		"ACLWithoutEffect", "Bound", "CertificateNotRemoved", "CertificatePostponed", "EndsWithCA", "FeatureGateDisabled", "MissingListener",
		// KafkaTopic
		"InvalidConfig", "TopicAdopted", "TopicCreated", "TopicDeleted", "TopicKept", "TopicRecreated", "Unmanaged",
		// etcd
		"BackupSucceeded", "CAsCreated", "CertificatesLoaded", "ExpansionRefused", "Insecure", "MembersReady", "MountRefused", "NoAlarm", "OldCertificate", "Rotating",
		"PolicyChanged", "PolicyEnforced", "PolicyMissing", "PolicyNotEnforced", "PolicyNotTested", "QuorumReady", "QuotaNearlyUsed", "SecretReady", "SelfSigned",
		"SignedOutside", "VolumesExpanding", "VolumesFixed",
		// causes in the message of RequestDenied
		"KeyOfAnotherPod", "KeyUsedForBothPlanes", "PrivateKeyExposed", "RequestHasPrivateKey", "RequestKeyTooWeak", "RequestNotBase64",
		"RequestTooLong", "RequestUnreadable",
	}
}

// reasonsInCode are the texts of constants whose name or type says that they are reasons.
func reasonsInCode(t *testing.T) []string {
	t.Helper()
	var found []string
	types := []string{"Reason", "Cause", "BackupFailure", "RestoreFailure"}
	for _, folder := range []string{
		"kafka/controller", "kafka/model", "user/model", "user/controller", "topic/model", "topic/controller", "access/binding", "access/controller", "unattended",
		"etcd/model", "etcd/controller", "etcd/membership", "etcd/enroll", "etcd/agent/contract", "etcd/attestation",
	} {
		paths, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(node ast.Node) bool {
				spec, is := node.(*ast.ValueSpec)
				if !is || len(spec.Values) != 1 {
					return true
				}
				kind, _ := spec.Type.(*ast.Ident)
				text, isText := spec.Values[0].(*ast.BasicLit)
				isReason := kind != nil && slices.Contains(types, kind.Name) ||
					kind == nil && strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason")
				if isReason && isText && text.Kind == token.STRING {
					reason, _ := strconv.Unquote(text.Value) // the parser has read it
					found = append(found, reason)
				}
				return true
			})
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryReasonEitherHasAnOutlookOrIsHarmless(t *testing.T) {
	t.Parallel()
	known := reasonsInCode(t)
	for _, reason := range known {
		if _, has := outlooks()[reason]; has == slices.Contains(harmless(), reason) {
			t.Errorf("the reason %s must be in exactly one of outlooks and harmless", reason)
		}
	}
	fromAPIServer := []string{"NotFound"} // the answer to a denied watch
	for reason := range outlooks() {
		if !slices.Contains(known, reason) && !slices.Contains(fromAPIServer, reason) {
			t.Errorf("outlooks has the reason %s, which nothing sets", reason)
		}
	}
	for _, reason := range harmless() {
		if !slices.Contains(known, reason) {
			t.Errorf("harmless has the reason %s, which nothing sets", reason)
		}
	}
}

func strimziCondition(kind condition.Type, reason string) condition.Condition {
	return condition.Condition{Type: kind, Status: condition.True, Reason: reason, Message: reason + " has a message."}
}

func TestWhatFollowsIsTheLastCondition(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	warning := strimziCondition(condition.Warning, "ForeignObject")
	ready := strimziCondition(condition.Ready, "")
	for name, test := range map[string]struct {
		list []condition.Condition
		want condition.Type
	}{
		"ready with a warning":                {[]condition.Condition{warning, ready}, ""},
		"a warning alone":                     {[]condition.Condition{warning}, ""},
		"nothing":                             {nil, ""},
		"not ready":                           {[]condition.Condition{warning, strimziCondition(condition.NotReady, "Creating")}, reconciling},
		"refused":                             {[]condition.Condition{warning, strimziCondition(condition.NotReady, "InvalidResourceException")}, stalled},
		"restarting":                          {[]condition.Condition{ready, strimziCondition(rollingUpdate, "Progressing")}, reconciling},
		"restarts wait":                       {[]condition.Condition{ready, strimziCondition(rollingUpdate, "Blocked")}, reconciling},
		"what is worse comes before restarts": {[]condition.Condition{strimziCondition(condition.NotReady, "RotationBlocked"), strimziCondition(rollingUpdate, "Progressing")}, stalled},
		"a pause is meant":                    {[]condition.Condition{strimziCondition(rollingUpdate, "Progressing"), strimziCondition(condition.ReconciliationPaused, "ReconciliationPaused")}, ""},
		"what followed before is forgotten":   {[]condition.Condition{ready, strimziCondition(stalled, "ForeignObject")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := Strimzi(test.list, nil, now)
			if test.want == "" {
				if slices.ContainsFunc(list, func(c condition.Condition) bool { return IsDerived(string(c.Type)) }) {
					t.Errorf("the conditions are %+v", list)
				}
				return
			}
			source := test.list[len(test.list)-1]
			if len(test.list) == 2 && test.list[0].Type == condition.NotReady {
				source = test.list[0]
			}
			source.Type, source.LastTransitionTime = test.want, "2026-01-01T12:00:00Z"
			if diff := cmp.Diff(source, list[len(list)-1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConditionsThatHoldStayAsTheyAre(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	first := Strimzi([]condition.Condition{strimziCondition(condition.NotReady, "Creating")}, nil, now)
	if diff := cmp.Diff(first, Strimzi(first, first, now.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	refused := Strimzi([]condition.Condition{strimziCondition(condition.NotReady, "ForeignObject")}, first, now.Add(time.Hour))
	if at := refused[1].LastTransitionTime; at != "2026-01-01T13:00:00Z" {
		t.Errorf("%s began at %s", refused[1].Type, at)
	}

	unready := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: 3}, {Type: "Available", Status: metav1.ConditionTrue}}
	}
	standard := Standard(unready("WaitingForPods"), nil, now)
	if diff := cmp.Diff(standard, Standard(standard, standard, now.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	lost := Standard(unready("QuorumLost"), standard, now.Add(time.Hour))
	want := metav1.Condition{Type: stalled, Status: metav1.ConditionTrue, Reason: "QuorumLost", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now.Add(time.Hour))}
	if diff := cmp.Diff(want, lost[2]); diff != "" {
		t.Error(diff)
	}
	if began := lost[0].LastTransitionTime; !began.Time.Equal(now) {
		t.Errorf("Ready is False since %s, although it was before", began)
	}
}
