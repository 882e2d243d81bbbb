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
	// Certificate is the name of the certificate and its key in the Secret of the user operator, without their endings.
	Certificate = "entity-operator"

	componentType = "entity-operator"
	container     = "user-operator"
	healthPort    = 8081
	metricsPort   = 8080
	// operatorUser is who the operator's image runs as.
	operatorUser = 65532
)

// Companions returns what runs beside the nodes of a cluster: the user operator, if the Kafka asks for it. The stores
// say whether Secrets of users get PKCS#12 stores, and the gates are its gates, too.
func Companions(stores authority.StoreGeneration, gates featuregate.Gates) func(model.Cluster) []companion.Companion {
	return func(c model.Cluster) []companion.Companion {
		if c.UserOperator == nil {
			return nil
		}
		return []companion.Companion{userOperator(c, stores, gates)}
	}
}

func userOperator(c model.Cluster, stores authority.StoreGeneration, gates featuregate.Gates) companion.Companion {
	name := c.Names.EntityOperator()
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
		Pod: c.OperatorPod().
			WithSecurityContext(coreac.PodSecurityContext().
				WithRunAsNonRoot(true).WithRunAsUser(operatorUser).WithRunAsGroup(operatorUser).WithFSGroup(operatorUser).
				WithSeccompProfile(coreac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
			WithContainers(c.OperatorContainer(container, c.UserOperator.Resources).
				WithArgs(args...).
				WithPorts(port("metrics", metricsPort), port("health", healthPort), port("agent", agent.SecurePort)).
				WithLivenessProbe(probe("/healthz").WithPeriodSeconds(20)).
				WithReadinessProbe(probe("/readyz").WithPeriodSeconds(5))),
	}
}

func port(name string, number int32) *coreac.ContainerPortApplyConfiguration {
	return coreac.ContainerPort().WithName(name).WithContainerPort(number)
}

func probe(path string) *coreac.ProbeApplyConfiguration {
	return coreac.Probe().WithTimeoutSeconds(5).
		WithHTTPGet(coreac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(healthPort)))
}

// Lease is the Lease of the user operator of a cluster: of all that look after one cluster, one acts.
func Lease(cluster string) string { return cluster + "-user-operator" }

// Rules are what a user operator with these gates may do in the namespace of its cluster. The chart grants the same to
// one that runs elsewhere, and all of it to the cluster operator, because an account can grant no more than it has.
func Rules(names model.Names, gates featuregate.Gates) []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	const kafka, leases = "kafka.strimzi.io", "coordination.k8s.io"
	ownLease := rule(leases, []string{"leases"}, "get", "update")
	ownLease.ResourceNames = []string{Lease(names.Cluster)}
	rules := []rbacv1.PolicyRule{
		rule(kafka, []string{"kafkausers", "kafkas"}, "get", "list", "watch"),
		rule(kafka, []string{"kafkausers"}, "patch"),
		rule(kafka, []string{"kafkausers/status", "kafkas/status"}, "patch"),
		rule("", []string{"secrets"}, "get", "list", "watch", "create", "patch", "delete"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
		rule(leases, []string{"leases"}, "create"),
		ownLease,
		rule("", []string{"events"}, "create", "patch"),
	}
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
