package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// defaultClusterDomain is the DNS domain of a Kubernetes cluster whose domain is not
// configured.
const defaultClusterDomain = "cluster.local"

// Longest names that Kubernetes and X.509 take.
const (
	// maxLabel is the longest DNS label and the longest value of a label.
	maxLabel = 63
	// maxCommonName is the upper bound of a common name (RFC 5280, appendix A.1).
	maxCommonName = 64
)

// Resolve validates the resources against what is known of the cluster and
// returns the cluster as it shall be now.
//
// All errors are collected. With errors (Findings.Err) the cluster must not be
// used: nothing may be changed until a person has mended the resources. A wish
// that cannot be granted but does not make the cluster unusable, such as smaller
// volumes or other controllers, is left ungranted with a warning.
func Resolve(in Input) (Cluster, Findings) {
	r := &resolver{in: in}
	cluster := r.resolve()
	return cluster, r.findings
}

// resolver collects findings while a cluster is resolved.
type resolver struct {
	in       Input
	findings Findings
}

func (r *resolver) errorf(object, format string, args ...any) {
	r.findings.Errors = append(r.findings.Errors, Finding{
		Object:  object,
		Reason:  ReasonInvalidResource,
		Message: fmt.Sprintf(format, args...),
	})
}

func (r *resolver) warnf(object, reason, format string, args ...any) {
	r.findings.Warnings = append(r.findings.Warnings, Finding{
		Object:  object,
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
	})
}

func (r *resolver) kafkaObject() string {
	return "Kafka " + r.in.Kafka.Namespace + "/" + r.in.Kafka.Name
}

func (r *resolver) poolObject(pool string) string {
	return "KafkaNodePool " + r.in.Kafka.Namespace + "/" + pool
}

func (r *resolver) resolve() Cluster {
	kafka := r.in.Kafka
	cluster := Cluster{
		Names: Names{
			Cluster:   kafka.Name,
			Namespace: kafka.Namespace,
			Domain:    cmp.Or(r.in.Settings.ClusterDomain, defaultClusterDomain),
		},
		ClusterID:          r.in.Known.ClusterID,
		SkipScaleDownCheck: Says(kafka.Annotations, skipScaleDownCheckAnnotation, textTrue),
		settings:           r.in.Settings,
		owner:              Owner{Name: kafka.Name, UID: kafka.UID},
	}
	if beside := kafka.Spec.EntityOperator; beside != nil {
		cluster.UserOperator, cluster.TopicOperator = beside.UserOperator, beside.TopicOperator
		cluster.beside = r.resolveOperatorTemplate(beside.Template)
	}
	r.checkClusterName(cluster.Names)
	r.checkClaims()
	r.checkCertManager()
	cluster.ClusterCACert = r.resolveClusterCACert()
	r.checkTemplates()
	r.warnAnnotations()
	cluster.labels = r.resolveLabels()
	cluster.Version = r.resolveVersion()
	cluster.Metadata = r.resolveMetadata(cluster.Version)
	r.resolvePools(&cluster)
	cluster.Listeners = r.resolveListeners()
	cluster.authorization = r.resolveAuthorization()
	cluster.config = r.resolveConfig(cluster.stayingBrokers())
	r.checkLimits(cluster.Version, cluster.config)
	r.warnCluster(cluster)
	return cluster
}

// checkClusterName refuses names of which some object could not be made. The
// schema refuses most of them already; an object that predates the schema, or
// came through another one, must not make half a cluster.
func (r *resolver) checkClusterName(names Names) {
	if problems := validation.IsDNS1035Label(names.Cluster); len(problems) > 0 {
		r.errorf(r.kafkaObject(), "the name %q cannot begin the names of Services (%s): create it under another name",
			names.Cluster, strings.Join(problems, ", "))
		return
	}
	if longest := names.BootstrapService(); len(longest) > maxLabel {
		r.errorf(r.kafkaObject(), "the name has %d characters, and the Service %s would have %d of at most %d: create it under a name of at most %d characters",
			len(names.Cluster), longest, len(longest), maxLabel, maxLabel-len(longest)+len(names.Cluster))
	}
	if commonName := names.Kafka(); len(commonName) > maxCommonName {
		r.errorf(r.kafkaObject(), "the common name %s of certificates would have %d characters of at most %d: create it under a shorter name",
			commonName, len(commonName), maxCommonName)
	}
}

// checkClaims refuses a cluster whose claims hold the data of another, or of several: a
// server that is started with another cluster's id refuses its data.
func (r *resolver) checkClaims() {
	known := r.in.Known
	claims := slices.Sorted(maps.Keys(known.ClaimedBy))
	if len(claims) == 0 {
		return
	}
	own, source := known.ClusterID, "status.clusterId"
	if own == "" {
		own, source = known.ClaimedBy[claims[0]], "PersistentVolumeClaim "+claims[0]
	}
	for _, claim := range claims {
		if id := known.ClaimedBy[claim]; id != own {
			r.errorf(r.kafkaObject(), "PersistentVolumeClaim %s holds data of the cluster with id %s, and this one has id %s, as %s says: "+
				"delete the claim if its data are not needed, or correct the id where it is wrong", claim, id, own, source)
			return
		}
	}
}

// resolveClusterCACert takes over what the template adds to the Secret with the certificate
// of the cluster CA. Keys of the operator are left out: a request in a template would be
// made again in each reconcile.
func (r *resolver) resolveClusterCACert() kafkav1.MetadataTemplate {
	template := r.in.Kafka.Spec.Kafka.Template
	if template == nil || template.ClusterCaCert == nil || template.ClusterCaCert.Metadata == nil {
		return kafkav1.MetadataTemplate{}
	}
	metadata := template.ClusterCaCert.Metadata
	return kafkav1.MetadataTemplate{
		Labels:      r.withoutOwnKeys("label", metadata.Labels),
		Annotations: r.withoutOwnKeys("annotation", metadata.Annotations),
	}
}

func (r *resolver) withoutOwnKeys(what string, given map[string]string) map[string]string {
	taken := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if authorities.OwnKey(key) {
			r.errorf(r.kafkaObject(), "spec.kafka.template.clusterCaCert: the %s %s is reserved for operators: remove it", what, key)
			continue
		}
		taken[key] = given[key]
	}
	return taken
}

// resolveLabels takes over the labels of the Kafka that are passed on.
func (r *resolver) resolveLabels() map[string]string {
	return r.inheritedLabels(r.kafkaObject(), r.in.Kafka.Labels)
}

// inheritedLabels are the labels of a resource that its objects carry too. The
// ones left out describe who deployed the resource, and would make a tool of
// the kind of Argo CD or Flux take our objects for its own.
func (r *resolver) inheritedLabels(object string, labels map[string]string) map[string]string {
	inherited := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case key == ClusterLabel, ExcludedLabel(key):
		case strings.HasPrefix(key, authorities.StrimziPrefix):
			r.errorf(object, "the label %s is reserved for the operator: remove it", key)
		default:
			inherited[key] = labels[key]
		}
	}
	return inherited
}

// ExcludedLabel reports whether a label tells who deployed a resource, so that what is made of it does not carry it: the default
// of Strimzi's STRIMZI_LABELS_EXCLUSION_PATTERN, and what Flux, Helm and Argo CD set beside.
func ExcludedLabel(key string) bool {
	deployers := []string{"kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "helm.sh/", "argocd.argoproj.io/"}
	return slices.ContainsFunc(deployers, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) ||
		(strings.HasPrefix(key, "app.kubernetes.io/") && !strings.HasPrefix(key, "app.kubernetes.io/part-of"))
}

// authorization is the resolved spec.kafka.authorization.
type authorization struct {
	enabled    bool
	superUsers []string
}

func (r *resolver) resolveAuthorization() authorization {
	spec := r.in.Kafka.Spec.Kafka.Authorization
	if spec == nil {
		return authorization{}
	}
	if spec.Type != kafkav1.AuthorizationSimple {
		r.errorf(r.kafkaObject(), "spec.kafka.authorization.type %s is not supported: use %s, or leave authorization out",
			spec.Type, kafkav1.AuthorizationSimple)
		return authorization{}
	}
	for _, user := range spec.SuperUsers {
		if strings.ContainsAny(user, ";\n\r") {
			r.errorf(r.kafkaObject(), "spec.kafka.authorization.superUsers holds %q: Kafka separates super users by ';', so none may contain it or a line break", user)
		}
	}
	return authorization{enabled: true, superUsers: slices.Clone(spec.SuperUsers)}
}

// warnCluster reports what works but is unwise.
func (r *resolver) warnCluster(cluster Cluster) {
	if len(r.findings.Errors) > 0 {
		return
	}
	r.warnControllerCount(len(cluster.Controllers()))
	r.warnEphemeral(cluster, "broker", cluster.Brokers())
	r.warnEphemeral(cluster, "controller", cluster.Controllers())
}

func (r *resolver) warnControllerCount(count int) {
	if count%2 != 0 {
		return
	}
	wrong, better := fmt.Sprintf("%d controllers tolerate no more failures than %d", count, count-1), "an odd number"
	if count == 2 {
		wrong, better = "2 controllers are both needed for a majority, so either one's restart stops the cluster", "3"
	}
	r.warnf(r.kafkaObject(), ReasonControllerCount,
		"%s; their number is fixed when a cluster is created: create a new cluster with %s", wrong, better)
}

// warnEphemeral warns when the only node of a role keeps its data in the pod.
func (r *resolver) warnEphemeral(cluster Cluster, role string, nodes []Node) {
	if len(nodes) != 1 {
		return
	}
	pool, found := cluster.Pool(nodes[0].Pool)
	if !found || !slices.ContainsFunc(pool.Volumes, func(v Volume) bool { return v.Type == kafkav1.StorageEphemeral }) {
		return
	}
	r.warnf(r.kafkaObject(), ReasonStorage,
		"the only %s has ephemeral storage and loses its data with every restart: use storage of type persistent-claim, or at least 3 nodes", role)
}
