package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// pinnedHelm finds helm once for all tests.
var pinnedHelm = sync.OnceValues(func() (helm, error) { return findHelm(context.Background(), root) })

func runHelm(t *testing.T, arguments ...string) ([]byte, error) {
	t.Helper()
	pinned, err := pinnedHelm()
	if err != nil {
		t.Fatal(err)
	}
	return pinned.run(t.Context(), arguments...)
}

// template renders the chart as a release keyturn with more arguments for helm.
func template(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	text, err := runHelm(t, append([]string{"template", "keyturn", "charts/keyturn", withoutDefinitions, exampleImage}, arguments...)...)
	return string(text), err
}

func TestValuesReachTheOperator(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set, want string
	}{
		"more clusters at the same time": {set: "concurrentReconciles=9", want: "- --concurrent-reconciles=9"},
		"a priority class":               {set: "priorityClassName=system-cluster-critical", want: "priorityClassName: system-cluster-critical"},
		"the name of a feature gate":     {set: "featureGates={+CertManagerCaType}", want: "- name: STRIMZI_FEATURE_GATES"},
		"a feature gate":                 {set: "featureGates={+CertManagerCaType}", want: "value: +CertManagerCaType"},
		"several feature gates":          {set: `featureGates={+CertManagerCaType,-Other}`, want: "value: +CertManagerCaType,-Other"},
		"an empty tag is the chart's":    {set: "image.tag=", want: "image: keyturn:0.1.0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, "--set="+test.set)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(trimmedLines(text), test.want) {
				t.Errorf("with %s no line is %q", test.set, test.want)
			}
		})
	}
}

func TestDefinitionsAreInstalledApart(t *testing.T) {
	t.Parallel()
	strimzis := []string{
		"kafkaaccesses.access.strimzi.io", "kafkanodepools.kafka.strimzi.io", "kafkas.kafka.strimzi.io", "kafkatopics.kafka.strimzi.io", "kafkausers.kafka.strimzi.io", "strimzipodsets.core.strimzi.io",
	}
	keyturns := []string{
		"etcdaccesses.keyturn.dev", "etcdbackups.etcd.database.coreos.com", "etcdclusters.etcd.database.coreos.com", "etcdpkis.keyturn.dev", "kafkaaccesses.kafka.strimzi.io",
	}
	for set, want := range map[string][]string{"crds.strimzi": strimzis, "crds.keyturn": keyturns} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, "--set="+set+"=true")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, line := range trimmedLines(text) {
				if name, is := strings.CutPrefix(line, "name: "); is && slices.Contains(slices.Concat(strimzis, keyturns), name) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, want) {
				t.Errorf("with %s alone there are %q, want %q", set, names, want)
			}
		})
	}
}

func TestThePolicyForEtcdMembers(t *testing.T) {
	t.Parallel()
	const etcd = "--set=etcd.enabled=true"
	for name, test := range map[string]struct {
		arguments []string
		installed bool
		line      string
	}{
		"etcd is off":             {arguments: nil},
		"etcd is on":              {arguments: []string{etcd}, installed: true, line: "namespaceSelector: {}"},
		"others install it":       {arguments: []string{etcd, "--set=etcd.attestationPolicy.create=false"}, line: "- --attestation-policy=keyturn-etcd-members"},
		"for namespaces":          {arguments: []string{etcd, "--set=watchNamespaces={shop,etcd}"}, installed: true, line: "- key: kubernetes.io/metadata.name"},
		"of a release of its own": {arguments: []string{etcd, "--set=watchNamespaces={shop}", "--namespace=other"}, installed: true, line: "- --attestation-policy=keyturn-etcd-members-other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, test.arguments...)
			if err != nil {
				t.Fatal(err)
			}
			if installed := strings.Contains(text, "kind: ValidatingAdmissionPolicy\n"); installed != test.installed {
				t.Errorf("the policy is installed: %t, want %t", installed, test.installed)
			}
			if test.line != "" && !slices.Contains(trimmedLines(text), test.line) {
				t.Errorf("no line is %q", test.line)
			}
		})
	}
}

// An operator that may not use cert-manager has no rights for it.
func TestRightsForCertManagerComeWithTheFeatureGate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		granted   bool
	}{
		"by default":          {},
		"gate on":             {arguments: []string{certManager}, granted: true},
		"gate off":            {arguments: []string{"--set=featureGates={-CertManagerCaType}"}},
		"another gate":        {arguments: []string{"--set=featureGates={+Other}"}},
		"of a namespace, on":  {arguments: []string{certManager, "--set=watchNamespaces={kafka}"}, granted: true},
		"of a namespace, off": {arguments: []string{"--set=watchNamespaces={kafka}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, test.arguments...)
			if err != nil {
				t.Fatal(err)
			}
			if granted := strings.Contains(text, "cert-manager.io]"); granted != test.granted {
				t.Errorf("granted is %t, want %t", granted, test.granted)
			}
		})
	}
}

// Of operators that share a Lease only one acts, and those of two releases watch different namespaces.
func TestEachReleaseHasALeaseThatItMayWrite(t *testing.T) {
	t.Parallel()
	for release, lease := range map[string]string{"keyturn": "keyturn-operator", "shop": "shop-keyturn-operator"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			text, err := runHelm(t, "template", release, "charts/keyturn", withoutDefinitions, exampleImage)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"- --leader-election-id=" + lease, "resourceNames: [" + lease + "]"} {
				if !slices.Contains(trimmedLines(string(text)), want) {
					t.Errorf("no line is %q", want)
				}
			}
		})
	}
}

// trimmedLines are the lines of a text without the space around them.
func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// EtcdPKIs and CertificateSigningRequests are in no namespace. A namespaced operator that uses them needs a ClusterRole for them, and
// nothing else.
func TestRightsToTheEtcdPKIAreTheOnlyOnesOutsideOfWatchedNamespaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		roles     int
		flag      string
	}{
		"one namespace":                      {[]string{"--set=watchNamespaces={etcd}"}, 1, "- --pki=true"},
		"one namespace, self-signed":         {[]string{"--set=watchNamespaces={etcd}", "--set=etcd.pki.enabled=false"}, 0, "- --pki=false"},
		"all namespaces":                     {nil, 2, "- --pki=true"},
		"all namespaces, with applications":  {[]string{"--set=etcd.access.enabled=true"}, 2, "- --access=true"},
		"all namespaces, always self-signed": {[]string{"--set=etcd.pki.enabled=false"}, 1, "- --pki=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, append(test.arguments, "--set=etcd.enabled=true", showOnly, "templates/etcdoperator.yaml")...)
			if err != nil {
				t.Fatal(err)
			}
			lines := trimmedLines(text)
			roles := 0
			for _, line := range lines {
				if line == "kind: ClusterRole" {
					roles++
				}
			}
			if bound := roles / 2; bound != test.roles || !slices.Contains(lines, test.flag) {
				t.Errorf("%d ClusterRoles, want %d and %s", bound, test.roles, test.flag)
			}
		})
	}
}

// objects are the kind, namespace and name of each object, as often as it is rendered.
func objects(text string) map[string]int {
	times := map[string]int{}
	for document := range strings.SplitSeq(text, "\n---") {
		first := map[string]string{}
		for line := range strings.SplitSeq(document, "\n") {
			if key, value, _ := strings.Cut(line, ": "); first[key] == "" {
				first[key] = value
			}
		}
		if first["kind"] != "" {
			times[first["kind"]+" "+first["  namespace"]+"/"+first["  name"]]++
		}
	}
	return times
}

// Helm applies the last of two objects with one name, so that a user operator would be missing without a word.
func TestNoTwoUserOperatorsShareAnObject(t *testing.T) {
	t.Parallel()
	type entry struct{ namespace, cluster string }
	for name, test := range map[string]struct {
		entries [2]entry
		says    []string
	}{
		"two clusters":                              {entries: [2]entry{{"kafka", "a"}, {"kafka", "b"}}},
		"one name in two namespaces":                {entries: [2]entry{{"kafka", "a"}, {"shop", "a"}}},
		"a name that ends like the Role of another": {entries: [2]entry{{"kafka", "a"}, {"kafka", "a-cert-manager"}}},
		"the same parts, cut elsewhere": {
			entries: [2]entry{{"kafka-a", "b"}, {"kafka", "a-b"}},
			says:    []string{"cluster a-b in namespace kafka", "keyturn-users-kafka-a-b", "release of its own"},
		},
		"one cluster twice": {
			entries: [2]entry{{"kafka", "a"}, {"kafka", "a"}},
			says:    []string{"cluster a in namespace kafka", "remove one of the entries"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := []string{certManager}
			for i, e := range test.entries {
				arguments = append(arguments, fmt.Sprintf("--set=userOperators[%d].namespace=%s,userOperators[%d].cluster=%s", i, e.namespace, i, e.cluster))
			}
			text, err := template(t, arguments...)
			if test.says == nil && err != nil {
				t.Fatal(err)
			}
			for _, words := range test.says {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("error %v, want one with %q", err, words)
				}
			}
			for object, times := range objects(text) {
				if times > 1 {
					t.Errorf("%s is rendered %d times", object, times)
				}
			}
		})
	}
}
