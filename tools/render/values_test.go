package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// object is one that the chart renders.
type object map[string]any

// at returns the field that the keys lead to, or nil.
func (o object) at(keys ...string) any {
	var value any = map[string]any(o)
	for _, key := range keys {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}

func (o object) kind() string { text, _ := o.at("kind").(string); return text }

func (o object) name() string { text, _ := o.at("metadata", "name").(string); return text }

// operators turns on all operators, with two replicas each.
const operators = `--set-json={
	"accessOperator": {"enabled": true, "replicas": 2}, "etcd": {"enabled": true, "replicas": 2},
	"userOperators": [{"cluster": "my-cluster", "namespace": "kafka", "replicas": 2}]
}`

// renderAll renders the chart with all operators, and with the definitions, with further arguments for helm.
func renderAll(t *testing.T, arguments ...string) ([]object, error) {
	t.Helper()
	text, err := runHelm(t, append([]string{"template", "keyturn", "charts/keyturn", "--namespace=keyturn", exampleImage, operators}, arguments...)...)
	if err != nil {
		return nil, err
	}
	var all []object
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var one object
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			t.Fatalf("parsing what the chart renders: %v\n%s", err, document)
		}
		if one.kind() != "" {
			all = append(all, one)
		}
	}
	return all, nil
}

// ofKind returns the objects of a kind, and fails without any.
func ofKind(t *testing.T, all []object, kind string) []object {
	t.Helper()
	var found []object
	for _, one := range all {
		if one.kind() == kind {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s is rendered", kind)
	}
	return found
}

// containerOf returns the only container of a Deployment.
func containerOf(t *testing.T, deployment object) object {
	t.Helper()
	containers, _ := deployment.at("spec", "template", "spec", "containers").([]any)
	if len(containers) != 1 {
		t.Fatalf("%s has %d containers, want 1", deployment.name(), len(containers))
	}
	container, _ := containers[0].(map[string]any)
	return container
}

func TestNamesBeginWithWhatTheValuesSay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		release   string
		arguments []string
		want      string
	}{
		"the release":                        {release: "keyturn", want: "keyturn"},
		"a release with another name":        {release: "shop", want: "shop-keyturn"},
		"a long release":                     {release: strings.Repeat("a", 53), want: strings.Repeat("a", 42) + "-keyturn"},
		"nameOverride":                       {release: "shop", arguments: []string{"--set=nameOverride=kafka"}, want: "shop-kafka"},
		"nameOverride that the release has":  {release: "shop-kafka", arguments: []string{"--set=nameOverride=kafka"}, want: "shop-kafka"},
		"a long release and nameOverride":    {release: strings.Repeat("a", 53), arguments: []string{"--set=nameOverride=" + strings.Repeat("b", 30)}, want: strings.Repeat("a", 19) + "-" + strings.Repeat("b", 30)},
		"fullnameOverride":                   {release: "shop", arguments: []string{"--set=fullnameOverride=kafka"}, want: "kafka"},
		"fullnameOverride over nameOverride": {release: "shop", arguments: []string{"--set=fullnameOverride=kafka,nameOverride=other"}, want: "kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := runHelm(t, append([]string{"template", test.release, "charts/keyturn", withoutDefinitions, exampleImage, operators}, test.arguments...)...)
			if err != nil {
				t.Fatal(err)
			}
			if others := objects(string(text)); others["Deployment default/"+test.want] != 1 {
				t.Errorf("no Deployment is named %s: %v", test.want, others)
			}
			for each := range objects(string(text)) {
				if _, own, _ := strings.Cut(each, "/"); !strings.HasPrefix(own, test.want) {
					t.Errorf("%s does not begin with %s", each, test.want)
				}
			}
			if label := "app.kubernetes.io/name: keyturn-user-operator"; !strings.Contains(string(text), label) {
				t.Errorf("the network policies of clusters let in pods with %s, and none has it", label)
			}
		})
	}
}

func TestAllPodsRunTheImage(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for set, want := range map[string]string{
		"image.repository=registry.example.com/k":                                      "registry.example.com/k:0.1.0",
		"image.repository=registry.example.com/k,image.tag=two":                        "registry.example.com/k:two",
		"image.repository=registry.example.com/k,image.digest=" + digest:               "registry.example.com/k@" + digest,
		"image.repository=registry.example.com/k,image.tag=two,image.digest=" + digest: "registry.example.com/k@" + digest,
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			all, err := renderAll(t, "--set="+set)
			if err != nil {
				t.Fatal(err)
			}
			for _, deployment := range ofKind(t, all, "Deployment") {
				if diff := cmp.Diff(any(want), containerOf(t, deployment).at("image")); diff != "" {
					t.Errorf("the image of %s differs (-want +got):\n%s", deployment.name(), diff)
				}
			}
		})
	}
}

func TestAChartWithoutItsImageSaysWhatToSet(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"image.tag=two", "image.repository=", "image.repository=null"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			_, err := runHelm(t, "template", "keyturn", "charts/keyturn", "--set="+set)
			if !strings.Contains(printed(err), "set image.repository, for example to registry.example.com/keyturn") {
				t.Errorf("error %v, want one that says to set image.repository", err)
			}
		})
	}
}

func TestAnUnfitValueIsRefusedByItsName(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"concurrentReconciles=0", "concurrentReconciles=many", "priorityClassName=Very Important", "crds.install=false",
		"featureGates[0]=CertManagerCaType", "featureGates=+CertManagerCaType",
		"nameOverride=Kafka", "nameOverride=" + strings.Repeat("a", 31), "fullnameOverride=-a", "fullnameOverride=" + strings.Repeat("a", 51),
		"image.digest=abc", "image.digest=sha256:abc",
		"imagePullSecrets[0]=registry", "imagePullSecrets[0].secret=registry", "imagePullSecrets[0].name=A",
		"imagePullSecrets[0].name=a..b", "etcd.imageRepository=registry.example.com/etcd:v3.6.16", "etcd.imageRepository=a b",
		"podLabels.team=a b", "podLabels=team", "podAnnotations.a=1", "commonLabels.team=-", "commonAnnotations.a=true",
		"serviceAccount.create=yes", "serviceAccount.name=A", "serviceAccount.annotations.a=1", "etcd.serviceAccount.name=A",
		"accessOperator.serviceAccount.names=a", "userOperators[0].serviceAccount.name=A", "rbac.create=no",
		"extraEnv=A", "extraEnv[0].value=a", "extraEnv[0].value=1,extraEnv[0].name=A",
		"podSecurityContext.runAsNonRoot=false", "podSecurityContext.runAsNonRoot=null", "podSecurityContext.runAsUser=0",
		"podSecurityContext.seccompProfile.type=Unconfined", "podSecurityContext.seccompProfile=null", "podSecurityContext.windowsOptions.hostProcess=true",
		"topologySpreadConstraints[0].maxSkew=1", "topologySpreadConstraints[0]=zone", "affinity=zone",
		"podDisruptionBudget.enabled=yes", "podDisruptionBudget.maxUnavailable=0", "podDisruptionBudget.maxUnavailable=0%",
		"podDisruptionBudget.minAvailable=100%", "podDisruptionBudget.minAvailable=2",
		"serviceMonitor.enabled=yes", "serviceMonitor.labels.release=a b", "serviceMonitor.interval=often", "serviceMonitor.scrapeTimeout=1",
		"serviceMonitor.relabelings=a", "serviceMonitor.metricRelabelings=a", "serviceMonitor.create=true",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			refused(t, set)
		})
	}
}

// printed is what helm said, without its arguments, which name the value in any case.
func printed(err error) string {
	if err == nil {
		return ""
	}
	_, text, _ := strings.Cut(err.Error(), "exit status")
	return text
}

// refused fails the test unless the chart refuses a value by its name and with all words.
func refused(t *testing.T, set string, words ...string) {
	t.Helper()
	_, err := renderAll(t, "--set="+set)
	if err == nil {
		t.Fatalf("%s is accepted", set)
	}
	for _, want := range words {
		if !strings.Contains(printed(err), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if len(words) > 0 {
		return
	}
	// The schema names a value by its JSON pointer, and one that is missing or unknown by that of its parent.
	name, _, _ := strings.Cut(set, "=")
	pointer := "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(name)
	names := []string{"'" + pointer + "'", name + " is"}
	if parent := path.Dir(pointer); parent != "/" {
		names = append(names, "'"+parent+"'")
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(printed(err), name) }) {
		t.Errorf("the error names none of %v: %v", names, err)
	}
}

// field is one of an object that a value decides.
type field struct {
	kind string
	path []string
	want any
}

// inPod is the path of a field of the pods of a Deployment.
func inPod(keys ...string) []string { return append([]string{"spec", "template", "spec"}, keys...) }

func TestAValueReachesEveryOperator(t *testing.T) {
	t.Parallel()
	const deployment, budget = "Deployment", "PodDisruptionBudget"
	for set, fields := range map[string][]field{
		`imagePullSecrets=[{"name":"registry"}]`: {{deployment, inPod("imagePullSecrets"), []any{map[string]any{"name": "registry"}}}},
		`podLabels={"example.com/team":"data"}`: {
			{deployment, []string{"spec", "template", "metadata", "labels", "example.com/team"}, "data"},
			{deployment, []string{"metadata", "labels", "example.com/team"}, nil},
		},
		`podAnnotations={"example.com/team":"data"}`: {
			{deployment, []string{"spec", "template", "metadata", "annotations", "example.com/team"}, "data"},
			{deployment, []string{"metadata", "annotations", "example.com/team"}, nil},
		},
		`commonLabels={"example.com/team":"data"}`: {
			{deployment, []string{"spec", "template", "metadata", "labels", "example.com/team"}, "data"},
			{deployment, []string{"spec", "selector", "matchLabels", "example.com/team"}, nil},
		},
		`commonAnnotations={"example.com/team":"data"}`: {
			{deployment, []string{"spec", "template", "metadata", "annotations", "example.com/team"}, nil},
		},
		`affinity={"nodeAffinity":{}}`: {{deployment, inPod("affinity"), map[string]any{"nodeAffinity": map[string]any{}}}},
		`podSecurityContext={"runAsUser":1000,"fsGroup":7}`: {{deployment, inPod("securityContext"), map[string]any{
			"runAsNonRoot": true, "runAsUser": 1000.0, "runAsGroup": 65532.0, "fsGroup": 7.0, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		}}},
		`podSecurityContext={"runAsUser":null,"runAsGroup":null}`: {{deployment, inPod("securityContext"), map[string]any{
			"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		}}},
		`podDisruptionBudget={}`:                       {{budget, []string{"spec", "maxUnavailable"}, 1.0}, {budget, []string{"spec", "minAvailable"}, nil}},
		`podDisruptionBudget={"maxUnavailable":"50%"}`: {{budget, []string{"spec", "maxUnavailable"}, "50%"}},
		`podDisruptionBudget={"minAvailable":1}`:       {{budget, []string{"spec", "minAvailable"}, 1.0}, {budget, []string{"spec", "maxUnavailable"}, nil}},
		`podDisruptionBudget={"minAvailable":"30%"}`:   {{budget, []string{"spec", "minAvailable"}, "30%"}},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			all, err := renderAll(t, "--set-json="+set)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				found := ofKind(t, all, field.kind)
				if len(found) != 4 {
					t.Errorf("there are %d of kind %s, want one for each of 4 operators", len(found), field.kind)
				}
				for _, one := range found {
					if diff := cmp.Diff(field.want, one.at(field.path...)); diff != "" {
						t.Errorf("%s of %s differs (-want +got):\n%s", strings.Join(field.path, "."), one.name(), diff)
					}
				}
			}
		})
	}
}

func TestOperatorsOfClustersAreToldWhereImagesAre(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set, argument string
		operators     []string
	}{
		{`imagePullSecrets=[{"name":"b"},{"name":"a.b"}]`, "--image-pull-secrets=b,a.b", []string{"keyturn", "keyturn-etcd-operator"}},
		{`imagePullSecrets=[]`, "--image-pull-secrets=", nil},
		{`etcd.imageRepository="mirror.example.com:5000/etcd"`, "--image-repository=mirror.example.com:5000/etcd", []string{"keyturn-etcd-operator"}},
		{`image.tag="x"`, "--image-repository=quay.io/coreos/etcd", []string{"keyturn-etcd-operator"}},
		{`etcd.imageRepository=null`, "--image-repository=", nil},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			all, err := renderAll(t, "--set-json="+test.set)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, deployment := range ofKind(t, all, "Deployment") {
				arguments, _ := containerOf(t, deployment).at("args").([]any)
				if slices.ContainsFunc(arguments, func(argument any) bool { return strings.HasPrefix(fmt.Sprint(argument), test.argument) }) {
					told = append(told, deployment.name())
				}
			}
			slices.Sort(told)
			if diff := cmp.Diff(test.operators, told); diff != "" {
				t.Errorf("operators with %s (-want +got):\n%s", test.argument, diff)
			}
		})
	}
}

func TestPullSecretsAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	if _, err := renderAll(t, `--set-json=imagePullSecrets=[{"name":"a"},{"name":"a"}]`); !strings.Contains(printed(err), "imagePullSecrets") {
		t.Errorf("error %v, want one that names imagePullSecrets", err)
	}
}

func TestCommonLabelsAndAnnotationsAreOnEveryObject(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t, certManager, "--set=namespace.create=true,commonLabels.team=data,commonAnnotations.contact=me")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, one := range all {
		kinds[one.kind()] = true
		if one.at("metadata", "labels", "team") != "data" || one.at("metadata", "annotations", "contact") != "me" {
			t.Errorf("%s %s lacks one: %v", one.kind(), one.name(), one.at("metadata"))
		}
	}
	if len(kinds) < 10 {
		t.Errorf("only the kinds %v are rendered", kinds)
	}
}

func TestLabelsThatAreActedUponAreRefused(t *testing.T) {
	t.Parallel()
	for _, label := range []string{
		"app.kubernetes.io/name", "helm.sh/chart", "strimzi.io/cluster", "servicebinding.io/controller", "pod-security.kubernetes.io/enforce",
	} {
		for _, value := range []string{"podLabels", "commonLabels", "serviceMonitor.labels"} {
			t.Run(value+" "+label, func(t *testing.T) {
				t.Parallel()
				refused(t, value+"."+strings.ReplaceAll(label, ".", `\.`)+"=x", value+" must not contain", "Remove it from "+value)
			})
		}
	}
	for _, value := range []string{"podLabels", "serviceMonitor.labels"} {
		t.Run(value+" and commonLabels", func(t *testing.T) {
			t.Parallel()
			refused(t, value+".team=a,commonLabels.team=b", "Remove it from one of them")
		})
	}
}

// account is a value for the ServiceAccount of one operator, and the names of its objects without it.
type account struct {
	value, name string
}

func accounts() []account {
	return []account{
		{"serviceAccount", "keyturn"},
		{"userOperators[0].serviceAccount", "keyturn-users-kafka-my-cluster"},
		{"accessOperator.serviceAccount", "keyturn-access-operator"},
		{"etcd.serviceAccount", "keyturn-etcd-operator"},
	}
}

// subjects are the ServiceAccounts that all bindings of the chart name.
func subjects(t *testing.T, all []object) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, one := range slices.Concat(ofKind(t, all, "RoleBinding"), ofKind(t, all, "ClusterRoleBinding")) {
		list, _ := one.at("subjects").([]any)
		for _, entry := range list {
			subject, _ := entry.(map[string]any)
			names[fmt.Sprint(subject["name"])] = true
		}
	}
	return names
}

func TestEachOperatorRunsAsTheServiceAccountOfItsValues(t *testing.T) {
	t.Parallel()
	for _, operator := range accounts() {
		for _, created := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, created %t", operator.value, created), func(t *testing.T) {
				t.Parallel()
				all, err := renderAll(t, certManager, fmt.Sprintf("--set=%[1]s.name=chosen,%[1]s.create=%[2]t,%[1]s.annotations.team=data", operator.value, created))
				if err != nil {
					t.Fatal(err)
				}
				found := slices.ContainsFunc(ofKind(t, all, "ServiceAccount"), func(one object) bool {
					return one.name() == "chosen" && one.at("metadata", "annotations", "team") == "data"
				})
				if found != created {
					t.Errorf("the ServiceAccount with its annotation is rendered: %t, want %t", found, created)
				}
				for _, deployment := range ofKind(t, all, "Deployment") {
					if is := deployment.at(inPod("serviceAccountName")...) == "chosen"; is != (deployment.name() == operator.name) {
						t.Errorf("%s runs as the ServiceAccount: %t", deployment.name(), is)
					}
				}
				bound := subjects(t, all)
				if !bound["chosen"] || bound[operator.name] {
					t.Errorf("the bindings name %v", bound)
				}
			})
		}
	}
}

// An operator that named another account than its policy trusts would sign nothing.
func TestThePolicyForEtcdMembersTrustsTheChosenServiceAccount(t *testing.T) {
	t.Parallel()
	text, err := template(t, "--namespace=keyturn", "--set=etcd.enabled=true,etcd.serviceAccount.name=chosen")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--service-account=chosen", "system:serviceaccount:keyturn:chosen"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing is %s", want)
		}
	}
}

func TestServiceAccountsThatWouldGiveOtherRightsAreRefused(t *testing.T) {
	t.Parallel()
	for _, operator := range accounts() {
		t.Run(operator.value+" is none", func(t *testing.T) {
			t.Parallel()
			refused(t, operator.value+".create=false", "Set "+operator.value+".name to a ServiceAccount that exists")
		})
	}
	t.Run("two have one", func(t *testing.T) {
		t.Parallel()
		refused(t, "serviceAccount.name=a,etcd.serviceAccount.name=a", "etcd.serviceAccount.name and serviceAccount.name are both a")
	})
	t.Run("one is another's", func(t *testing.T) {
		t.Parallel()
		refused(t, "serviceAccount.name=keyturn-etcd-operator", "etcd.serviceAccount.name and serviceAccount.name are both keyturn-etcd-operator")
	})
}

func TestWithoutRBACNoRightsAreRenderedAndTheNotesSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		files     []string
	}{
		"all namespaces": {
			files: []string{"keyturn.yaml: keyturn", "keyturn-user-operator.yaml: keyturn-users-kafka-my-cluster", "keyturn-access-operator.yaml: keyturn-access-operator", "keyturn-etcd-operator.yaml: keyturn-etcd-operator"},
		},
		"one namespace":  {arguments: []string{"--set=watchNamespaces={kafka}"}, files: []string{"keyturn-namespaced.yaml: keyturn"}},
		"with a gate":    {arguments: []string{certManager}, files: []string{"keyturn-cert-manager.yaml: keyturn", "keyturn-user-operator-cert-manager.yaml: keyturn-users-kafka-my-cluster"}},
		"both":           {arguments: []string{certManager, "--set=watchNamespaces={kafka}"}, files: []string{"keyturn-cert-manager-namespaced.yaml: keyturn"}},
		"EtcdAccesses":   {arguments: []string{"--set=etcd.access.enabled=true"}, files: []string{"keyturn-etcd-operator-access.yaml: keyturn-etcd-operator"}},
		"other accounts": {arguments: []string{"--set=serviceAccount.name=chosen"}, files: []string{"keyturn.yaml: chosen"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := append([]string{"--set=rbac.create=false"}, test.arguments...)
			all, err := renderAll(t, arguments...)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				if strings.HasPrefix(fmt.Sprint(one["apiVersion"]), "rbac.authorization.k8s.io/") {
					t.Errorf("%s %s is rendered", one.kind(), one.name())
				}
			}
			notes := notesOf(t, arguments...)
			for _, file := range test.files {
				if !slices.Contains(trimmedLines(notes), file) {
					t.Errorf("the notes lack %q:\n%s", file, notes)
				}
				manifest, _, _ := strings.Cut(file, ":")
				if _, err := os.Stat(filepath.Join(root, "config", "install", manifest)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// notesOf returns what helm says after an installation.
func notesOf(t *testing.T, arguments ...string) string {
	t.Helper()
	text, err := runHelm(t, append([]string{"install", "keyturn", "charts/keyturn", "--dry-run=client", exampleImage, operators, withoutDefinitions}, arguments...)...)
	if err != nil {
		t.Fatal(err)
	}
	_, notes, found := strings.Cut(string(text), "NOTES:")
	if !found {
		t.Fatalf("there are no notes:\n%s", text)
	}
	return notes
}

func TestEachOperatorCountsItsOwnPods(t *testing.T) {
	t.Parallel()
	const spread = `topologySpreadConstraints=[
		{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
		{"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"team": "data"}}}
	]`
	all, err := renderAll(t, "--set-json="+spread)
	if err != nil {
		t.Fatal(err)
	}
	for _, deployment := range ofKind(t, all, "Deployment") {
		own := deployment.at("spec", "selector")
		want := []any{
			map[string]any{"maxSkew": 1.0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own},
			map[string]any{"maxSkew": 2.0, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": map[string]any{"matchLabels": map[string]any{"team": "data"}}},
		}
		if diff := cmp.Diff(want, deployment.at(inPod("topologySpreadConstraints")...)); diff != "" {
			t.Errorf("the spread of %s differs (-want +got):\n%s", deployment.name(), diff)
		}
		term := map[string]any{"topologyKey": "kubernetes.io/hostname", "labelSelector": own}
		if diff := cmp.Diff(any([]any{map[string]any{"weight": 100.0, "podAffinityTerm": term}}),
			deployment.at(inPod("affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution")...)); diff != "" {
			t.Errorf("the affinity of %s differs (-want +got):\n%s", deployment.name(), diff)
		}
	}
	for _, budget := range ofKind(t, all, "PodDisruptionBudget") {
		of := func(one object) bool {
			return one.name() == budget.name() && cmp.Equal(one.at("spec", "selector"), budget.at("spec", "selector"))
		}
		if !slices.ContainsFunc(ofKind(t, all, "Deployment"), of) {
			t.Errorf("the PodDisruptionBudget %s selects the pods of no Deployment with its name", budget.name())
		}
	}
}

// With one replica a budget would block every drain of its node.
func TestASingleReplicaHasNoDisruptionBudget(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string][]string{
		"one replica": {"--set=replicas=1,etcd.replicas=1,accessOperator.replicas=1,userOperators[0].replicas=1"},
		"none":        {"--set=replicas=0,etcd.replicas=0,accessOperator.replicas=0,userOperators[0].replicas=0"},
		"off":         {"--set=podDisruptionBudget.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := renderAll(t, arguments...)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				if one.kind() == "PodDisruptionBudget" {
					t.Errorf("%s is rendered", one.name())
				}
			}
			replicas := map[string]float64{"one replica": 1, "none": 0, "off": 2}[name]
			for _, deployment := range ofKind(t, all, "Deployment") {
				if deployment.at("spec", "replicas") != replicas {
					t.Errorf("%s has %v replicas, want %v", deployment.name(), deployment.at("spec", "replicas"), replicas)
				}
			}
		})
	}
}

func TestFurtherVariablesReachEveryOperator(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t, `--set-json=extraEnv=[{"name":"HTTPS_PROXY","value":"proxy:1"},{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}]`)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[string]any{"name": "HTTPS_PROXY", "value": "proxy:1"},
		map[string]any{"name": "NODE", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}},
	}
	for _, deployment := range ofKind(t, all, "Deployment") {
		env, _ := containerOf(t, deployment).at("env").([]any)
		if len(env) < 3 || !cmp.Equal(want, env[len(env)-2:]) {
			t.Errorf("the variables of %s are %v", deployment.name(), env)
		}
	}
}

func TestVariablesOfTheChartAreRefused(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t, certManager)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, deployment := range ofKind(t, all, "Deployment") {
		env, _ := containerOf(t, deployment).at("env").([]any)
		for _, entry := range env {
			variable, _ := entry.(map[string]any)
			own[fmt.Sprint(variable["name"])] = true
		}
	}
	if !own["STRIMZI_FEATURE_GATES"] || !own["GOMEMLIMIT"] {
		t.Errorf("the chart sets only %v", own)
	}
	for name := range own {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, "extraEnv[0].name="+name, "extraEnv must not contain "+name)
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		refused(t, "extraEnv[0].name=A,extraEnv[1].name=A", "extraEnv contains A twice")
	})
}

func TestAServiceMonitorIsRenderedOnDemand(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.kind() == "ServiceMonitor" {
			t.Errorf("%s is rendered by default", one.name())
		}
	}
	all, err = renderAll(t, `--set-json=serviceMonitor={"enabled":true,"labels":{"release":"prometheus"},"interval":"1m","scrapeTimeout":"10s",
		"relabelings":[{"action":"drop"}],"metricRelabelings":[{"action":"keep"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	monitor := ofKind(t, all, "ServiceMonitor")[0]
	want := []any{map[string]any{
		"port": "metrics", "interval": "1m", "scrapeTimeout": "10s", "honorLabels": true,
		"relabelings": []any{map[string]any{"action": "drop"}}, "metricRelabelings": []any{map[string]any{"action": "keep"}},
	}}
	if diff := cmp.Diff(want, monitor.at("spec", "endpoints")); diff != "" {
		t.Errorf("the endpoints differ (-want +got):\n%s", diff)
	}
	if monitor.at("metadata", "labels", "release") != "prometheus" {
		t.Errorf("its labels are %v", monitor.at("metadata", "labels"))
	}
}

func TestTheServiceMonitorSelectsAServiceOfEachOperator(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		services  int
	}{
		"all operators":        {services: 4},
		"the Kafka operator":   {arguments: []string{"--set=etcd.enabled=false,accessOperator.enabled=false", "--set-json=userOperators=[]"}, services: 1},
		"two user operators":   {arguments: []string{"--set=userOperators[1].cluster=other,userOperators[1].namespace=kafka"}, services: 4},
		"the longest of names": {arguments: []string{"--set=fullnameOverride=" + strings.Repeat("a", 50)}, services: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := renderAll(t, append([]string{"--set=serviceMonitor.enabled=true"}, test.arguments...)...)
			if err != nil {
				t.Fatal(err)
			}
			expressions, _ := ofKind(t, all, "ServiceMonitor")[0].at("spec", "selector", "matchExpressions").([]any)
			only, _ := expressions[0].(map[string]any)
			selected, _ := only["values"].([]any)
			services := ofKind(t, all, "Service")
			if len(services) != test.services || len(selected) != test.services {
				t.Errorf("%d Services, %d of them selected, want %d", len(services), len(selected), test.services)
			}
			for _, service := range services {
				if len(service.name()) > 63 {
					t.Errorf("the API server refuses the name %s of a Service", service.name())
				}
				if label := service.at("metadata", "labels", "app.kubernetes.io/name"); !slices.Contains(selected, label) || label != service.at("spec", "selector", "app.kubernetes.io/name") {
					t.Errorf("the Service %s of pods %v is not selected by %v", service.name(), service.at("spec", "selector"), selected)
				}
			}
		})
	}
}
