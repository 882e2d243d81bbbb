package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// What is checked here needs no API server; TestAPIServerTakesTheDefinitions adds the rest.
func TestDefinitionsAreStructuralAndTheirRulesCompile(t *testing.T) {
	t.Parallel()
	for _, name := range definitions() {
		for _, version := range versionsOf(name) {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				admission := newAdmission(t, name, version)
				if errs := schema.ValidateStructural(nil, admission.structural); len(errs) != 0 {
					t.Errorf("the schema is not structural:\n%v", errs.ToAggregate())
				}
				compileRules(t, "", admission.structural, true)
			})
		}
	}
}

// costLimit is what the API server lets one expression cost (StaticEstimatedCostLimit in package
// k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation), in units of CEL.
const costLimit = 10_000_000

// compileRules compiles the rules of s and of everything below it, messages included.
func compileRules(t *testing.T, path string, s *schema.Structural, root bool) {
	t.Helper()
	results, err := cel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit,
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.NewExpressionsEnvLoader())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for i, result := range results {
		if result.Error != nil {
			t.Errorf("%s: rule %q: %v", path, s.XValidations[i].Rule, result.Error)
		}
		if result.MessageExpressionError != nil {
			t.Errorf("%s: message of rule %q: %v", path, s.XValidations[i].Rule, result.MessageExpressionError)
		}
		for what, cost := range map[string]uint64{"rule": result.MaxCost, "message of rule": result.MessageExpressionMaxCost} {
			if cost > costLimit {
				t.Errorf("%s: %s %q may cost %d, limit %d", path, what, s.XValidations[i].Rule, cost, costLimit)
			}
		}
	}
	for name, property := range s.Properties {
		compileRules(t, path+"."+name, &property, false)
	}
	if s.Items != nil {
		compileRules(t, path+"[]", s.Items, false)
	}
}

func TestDefinitionsServeOlderVersionsWithTheSchemaOfV1(t *testing.T) {
	t.Parallel()
	for _, name := range []string{kafkas, kafkaNodePools, kafkaUsers, kafkaTopics, podSets} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := definition(t, name)
			stored := crd.Spec.Versions[0]
			if stored.Name != "v1" || !stored.Storage || !stored.Served {
				t.Errorf("the first version is %s (storage %t, served %t), want v1 stored and served", stored.Name, stored.Storage, stored.Served)
			}
			names := []string{stored.Name}
			for _, served := range crd.Spec.Versions[1:] {
				names = append(names, served.Name)
				if served.Storage || !served.Served {
					t.Errorf("%s has storage %t and served %t, want it served only", served.Name, served.Storage, served.Served)
				}
				older := served.Name
				served.Name, served.Storage = stored.Name, stored.Storage
				if diff := cmp.Diff(stored, served); diff != "" {
					t.Errorf("the versions differ (-v1 +%s):\n%s", older, diff)
				}
			}
			if diff := cmp.Diff(versionsOf(name), names); diff != "" {
				t.Errorf("the versions are others (-want +got):\n%s", diff)
			}
		})
	}
}

// What tools and people address the resources by.
func TestDefinitionsHaveTheNamesOfTheirOrigin(t *testing.T) {
	t.Parallel()
	want := map[string]apiextensionsv1.CustomResourceDefinitionNames{
		kafkas:           {Plural: "kafkas", Singular: "kafka", ShortNames: []string{"k"}, Kind: "Kafka", ListKind: "KafkaList", Categories: []string{"strimzi"}},
		kafkaNodePools:   {Plural: "kafkanodepools", Singular: "kafkanodepool", ShortNames: []string{"knp"}, Kind: "KafkaNodePool", ListKind: "KafkaNodePoolList", Categories: []string{"strimzi"}},
		kafkaUsers:       {Plural: "kafkausers", Singular: "kafkauser", ShortNames: []string{"ku"}, Kind: "KafkaUser", ListKind: "KafkaUserList", Categories: []string{"strimzi"}},
		kafkaTopics:      {Plural: "kafkatopics", Singular: "kafkatopic", ShortNames: []string{"kt"}, Kind: "KafkaTopic", ListKind: "KafkaTopicList", Categories: []string{"strimzi"}},
		kafkaAccesses:    {Plural: "kafkaaccesses", Singular: "kafkaaccess", ShortNames: []string{"ka"}, Kind: "KafkaAccess", ListKind: "KafkaAccessList", Categories: []string{"strimzi"}},
		proposedAccesses: {Plural: "kafkaaccesses", Singular: "kafkaaccess", Kind: "KafkaAccess", ListKind: "KafkaAccessList", Categories: []string{"strimzi"}},
		etcdClusters:     {Plural: "etcdclusters", Singular: "etcdcluster", ShortNames: []string{"etcd"}, Kind: "EtcdCluster", ListKind: "EtcdClusterList"},
		etcdBackups:      {Plural: "etcdbackups", Singular: "etcdbackup", Kind: "EtcdBackup", ListKind: "EtcdBackupList"},
		etcdPKIs:         {Plural: "etcdpkis", Singular: "etcdpki", Kind: "EtcdPKI", ListKind: "EtcdPKIList"},
		podSets:          {Plural: "strimzipodsets", Singular: "strimzipodset", ShortNames: []string{"sps"}, Kind: "StrimziPodSet", ListKind: "StrimziPodSetList", Categories: []string{"strimzi"}},
	}
	for name, names := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(names, definition(t, name).Spec.Names); diff != "" {
				t.Errorf("names differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyNodePoolsScale(t *testing.T) {
	t.Parallel()
	selector := ".status.labelSelector"
	want := map[string]*apiextensionsv1.CustomResourceSubresourceScale{
		kafkas:           nil,
		kafkaNodePools:   {SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector},
		kafkaUsers:       nil,
		kafkaTopics:      nil,
		podSets:          nil,
		kafkaAccesses:    nil,
		proposedAccesses: nil,
		etcdClusters:     nil,
		etcdBackups:      nil,
		etcdPKIs:         nil,
	}
	for name, scale := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subresources := definition(t, name).Spec.Versions[0].Subresources
			if subresources.Status == nil {
				t.Error("status is no subresource")
			}
			if diff := cmp.Diff(scale, subresources.Scale); diff != "" {
				t.Errorf("scale differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Service Binding implementations and tools find by this label which kinds are provisioned services.
func TestKafkaAccessIsMarkedAsAProvisionedService(t *testing.T) {
	t.Parallel()
	for _, name := range []string{kafkaAccesses, proposedAccesses} {
		if got := definition(t, name).Labels["servicebinding.io/provisioned-service"]; got != "true" {
			t.Errorf("%s: the label servicebinding.io/provisioned-service is %q, want true", name, got)
		}
	}
}

// kubectl explain shows what is written here. A text about what has no effect, or is as in a Pod, covers all that is below.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	for _, name := range definitions() {
		for _, version := range versionsOf(name) {
			for field, property := range newAdmission(t, name, version).structural.Properties {
				if field == "spec" || field == "status" {
					wantDescribed(t, name+" "+version+" ."+field, &property)
				}
			}
		}
	}
}

func wantDescribed(t *testing.T, path string, s *schema.Structural) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s has no description", path)
	}
	if strings.HasPrefix(s.Description, "No effect") || strings.HasSuffix(s.Description, "What is below it is as in a Pod.") {
		return
	}
	for name, property := range s.Properties {
		wantDescribed(t, path+"."+name, &property)
	}
	for _, inner := range []*schema.Structural{s.Items, valuesOf(s)} {
		if inner == nil {
			continue
		}
		for name, property := range inner.Properties {
			wantDescribed(t, path+"[]."+name, &property)
		}
	}
}

func valuesOf(s *schema.Structural) *schema.Structural {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Structural
}
