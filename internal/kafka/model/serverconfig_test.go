package model

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// mapped applies the rule as Kafka's SslPrincipalMapper does: the whole name has
// to match, and the second rule keeps the others.
func mapped(t *testing.T, name string) string {
	t.Helper()
	rule, isRule := strings.CutPrefix(principalMapping, "RULE:")
	parts := strings.Split(rule, "/")
	if !isRule || len(parts) != 3 || parts[2] != ",DEFAULT" {
		t.Fatalf("the rules are of another form: %s", principalMapping)
	}
	pattern := regexp.MustCompile(parts[0])
	if !pattern.MatchString(name) {
		return name
	}
	return pattern.ReplaceAllString(name, parts[1])
}

func TestNoClientIsTakenForThePowerful(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationSimple}
	cluster, _ := resolved(t, in)
	users := strings.Split(cluster.ServerConfig(cluster.Nodes[0])["super.users"], ";")
	if len(users) != 6 {
		t.Fatalf("super users: %v", users)
	}
	for _, user := range users {
		name, _ := strings.CutPrefix(user, "User:")
		if got := mapped(t, name); slices.Contains(users, "User:"+got) {
			t.Errorf("%s stays a super user", got)
		}
	}
}

func TestPrincipalMapping(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"CN=me":                            "CN=me",
		"CN=me,OU=team,O=Acme\\, Inc.":     "CN=me,OU=team,O=Acme\\, Inc.",
		"CN=me,O=io.strimzi.example":       "CN=me,O=io.strimzi.example",
		"CN=me,O=ioxstrimzi":               "CN=me,O=ioxstrimzi",
		"OU=io.strimzi,CN=me":              "OU=io.strimzi,CN=me",
		"CN=cluster-operator,O=io.strimzi": "reserved:CN=cluster-operator,O=io.strimzi",
		"O=io.strimzi,CN=cluster-operator": "reserved:O=io.strimzi,CN=cluster-operator",
		"O=io.strimzi":                     "reserved:O=io.strimzi",
		"CN=my-kafka+O=io.strimzi":         "reserved:CN=my-kafka+O=io.strimzi",
		"CN=my-kafka,O=IO.STRIMZI":         "reserved:CN=my-kafka,O=IO.STRIMZI",
		"CN=a\nb,O=io.strimzi":             "reserved:CN=a\nb,O=io.strimzi",
		"CN=a,O=io.strimzi,C=DE":           "reserved:CN=a,O=io.strimzi,C=DE",
	} {
		if got := mapped(t, name); got != want {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

// The rule stands on every TLS listener of the user's, and on none between nodes.
func TestWherePrincipalsAreMapped(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, exampleInput())
	properties := cluster.ServerConfig(cluster.Nodes[0])
	for listener, want := range map[string]string{"tls-9093": principalMapping, "replication-9091": "", "controlplane-9090": ""} {
		if got := properties["listener.name."+listener+".ssl.principal.mapping.rules"]; got != want {
			t.Errorf("%s has %q", listener, got)
		}
	}
}

// The file that the agent completes names no store and holds no key.
func TestTheConfigurationNamesNoStore(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, readInput(t, "separate-roles"))
	for _, node := range cluster.Nodes {
		for key := range cluster.ServerConfig(node) {
			if strings.Contains(key, "keystore") || strings.Contains(key, "truststore") {
				t.Errorf("%s has %s", node.Pod, key)
			}
		}
	}
}

func TestVotersAreReadBack(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, separate(3))
	for _, node := range cluster.Nodes {
		voters, err := ParseVoters(cluster.ServerConfig(node).Encode())
		must(t, err)
		if diff := cmp.Diff([]NodeID{0, 1, 2}, voters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node.Pod, diff)
		}
	}
}

func TestBrokenVotersAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no id":            "controller.quorum.voters=@host:9090",
		"no properties":    `a=\u`,
		"a negative id":    "controller.quorum.voters=-1@host:9090",
		"a list that ends": "controller.quorum.voters=1@host:9090,",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if voters, err := ParseVoters(text); err == nil {
				t.Errorf("%q gives %v", text, voters)
			}
		})
	}
	voters, err := ParseVoters("node.id=1")
	if err != nil || len(voters) != 0 {
		t.Errorf("no voters give %v, %v", voters, err)
	}
}
