package entityoperator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	// Certificate is the name of the certificate and its key in the Secret of an operator, without their endings.
	Certificate = "entity-operator"

	componentType = "entity-operator"
	// operatorUser is who the operator's image runs as.
	operatorUser = 65532
)

// ports are those of an operator. Containers of one pod cannot share any.
type ports struct{ metrics, health, agent int32 }

func portsOfUsers() ports { return ports{metrics: 8080, health: 8081, agent: agent.SecurePort} }

func portsOfTopics() ports { return ports{metrics: 8082, health: 8083, agent: 8444} }

// Companions returns what runs beside the nodes of a cluster: the user operator and the topic operator, as far as the Kafka
// asks for them. They share a Deployment. The stores say whether Secrets of users get PKCS#12 stores, and the gates are those
// of the user operator, too.
func Companions(stores authority.StoreGeneration, gates featuregate.Gates) func(model.Cluster) []companion.Companion {
	return func(c model.Cluster) []companion.Companion {
		var beside []companion.Companion
		if c.UserOperator != nil {
			beside = append(beside, userOperator(c, stores, gates))
		}
		if c.TopicOperator != nil {
			beside = append(beside, topicOperator(c))
		}
		return beside
	}
}

// topicOperator does not depend on the user operator: each works when the other crashes.
func topicOperator(c model.Cluster) companion.Companion {
	name, ports := c.Names.EntityOperator(), portsOfTopics()
	return companion.Companion{
		Name: name, Type: componentType, Process: agent.TopicOperator,
		Secret: c.Names.TopicOperatorSecret(), CommonName: c.Names.TopicOperator(), Certificate: Certificate,
		Host:    fmt.Sprintf("%s.%s.svc", c.Names.TopicOperator(), c.Names.Namespace),
		Loading: publication.LoadByReload, Port: ports.agent, Replicas: 1,
		Rules: TopicRules(c.Names),
		Pod: pod(c, ports, c.OperatorContainer(model.TopicOperatorContainer, c.TopicOperator.Resources).WithArgs(
			"topic-operator", "--cluster="+c.Names.Cluster, "--namespace="+c.Names.Namespace,
			"--mounted-certificate="+Certificate, fmt.Sprintf("--certificate-address=:%d", ports.agent),
			fmt.Sprintf("--metrics-address=:%d", ports.metrics), fmt.Sprintf("--probe-address=:%d", ports.health))),
	}
}

func userOperator(c model.Cluster, stores authority.StoreGeneration, gates featuregate.Gates) companion.Companion {
	name, ports := c.Names.EntityOperator(), portsOfUsers()
	args := []string{
		"user-operator", "--cluster=" + c.Names.Cluster, "--namespace=" + c.Names.Namespace,
		"--mounted-certificate=" + Certificate, fmt.Sprintf("--pkcs12=%t", stores == authority.WithStores),
	}
	if prefix := c.UserOperator.SecretPrefix; prefix != "" {
		args = append(args, "--secret-prefix="+prefix)
	}
	if set := gates.Setting(); set != "" {
		args = append(args, "--feature-gates="+set)
	}
	return companion.Companion{
		Name: name, Type: componentType,
		Secret: c.Names.UserOperatorSecret(), CommonName: c.Names.UserOperator(), Certificate: Certificate,
		Host:    fmt.Sprintf("%s.%s.svc", name, c.Names.Namespace),
		Loading: publication.LoadByReload, Replicas: 1,
		Rules: Rules(c.Names, gates),
		Pod:   pod(c, ports, c.OperatorContainer(model.UserOperatorContainer, c.UserOperator.Resources).WithArgs(args...)),
	}
}

// pod runs one operator.
func pod(c model.Cluster, ports ports, container *coreac.ContainerApplyConfiguration) *coreac.PodSpecApplyConfiguration {
	return c.OperatorPod().
		WithSecurityContext(coreac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(operatorUser).WithRunAsGroup(operatorUser).WithFSGroup(operatorUser).
			WithSeccompProfile(coreac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(container.
			WithPorts(port("metrics", ports.metrics), port("health", ports.health), port("agent", ports.agent)).
			WithLivenessProbe(probe("/healthz", ports).WithPeriodSeconds(20)).
			WithReadinessProbe(probe("/readyz", ports).WithPeriodSeconds(5)))
}

func port(name string, number int32) *coreac.ContainerPortApplyConfiguration {
	return coreac.ContainerPort().WithName(name).WithContainerPort(number)
}

func probe(path string, ports ports) *coreac.ProbeApplyConfiguration {
	return coreac.Probe().WithTimeoutSeconds(5).
		WithHTTPGet(coreac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(ports.health)))
}

// Lease is the Lease of the user operator of a cluster: of all that look after one cluster, one acts.
func Lease(cluster string) string { return cluster + "-user-operator" }

// TopicLease is the Lease of the topic operator of a cluster.
func TopicLease(cluster string) string { return cluster + "-topic-operator" }

// TopicRules are what a topic operator may do in the namespace of its cluster, as Rules are for users.
func TopicRules(names model.Names) []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rule(kafka, []string{"kafkatopics", "kafkas"}, "get", "list", "watch"),
		rule(kafka, []string{"kafkatopics"}, "patch"),
		rule(kafka, []string{"kafkatopics/status"}, "patch"),
	}, electionRules(TopicLease(names.Cluster))...)
}

// Groups of the API.
const (
	kafka  = "kafka.strimzi.io"
	leases = "coordination.k8s.io"
)

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// electionRules are for a process of which one replica acts, and for its events.
func electionRules(lease string) []rbacv1.PolicyRule {
	own := rule(leases, []string{"leases"}, "get", "update")
	own.ResourceNames = []string{lease}
	return []rbacv1.PolicyRule{
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
		rule(leases, []string{"leases"}, "create"),
		own,
		rule("", []string{"events"}, "create", "patch"),
	}
}

// Rules are what a user operator with these gates may do in the namespace of its cluster. The chart grants the same to
// one that runs elsewhere, and all of it to the cluster operator, because an account can grant no more than it has.
func Rules(names model.Names, gates featuregate.Gates) []rbacv1.PolicyRule {
	rules := append([]rbacv1.PolicyRule{
		rule(kafka, []string{"kafkausers", "kafkas"}, "get", "list", "watch"),
		rule(kafka, []string{"kafkausers"}, "patch"),
		rule(kafka, []string{"kafkausers/status", "kafkas/status"}, "patch"),
		rule("", []string{"secrets"}, "get", "list", "watch", "create", "patch", "delete"),
	}, electionRules(Lease(names.Cluster))...)
	if gates.CertManagerCaType == featuregate.Off {
		return rules
	}
	const certManager = "cert-manager.io"
	return slices.Concat(rules, []rbacv1.PolicyRule{
		rule(certManager, []string{"certificates"}, "get", "list", "watch", "create", "patch", "delete"),
		rule(certManager, []string{"certificates/status"}, "patch"),
		rule(certManager, []string{"certificaterequests", "issuers"}, "get"),
	})
}
