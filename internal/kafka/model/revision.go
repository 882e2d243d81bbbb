package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// Annotations of Kafka pods. A pod keeps those it was made with, so comparing
// them with the desired ones says what has changed since.
const (
	RevisionAnnotation                = "strimzi.io/revision"
	ResourceRevisionAnnotation        = "strimzi.io/resource-revision"
	ConfigurationHashAnnotation       = "strimzi.io/configuration-hash"
	KafkaVersionAnnotation            = "strimzi.io/kafka-version"
	ClusterCACertGenerationAnnotation = authorities.ClusterCertGenerationAnnotation
	ClusterCAKeyGenerationAnnotation  = authorities.ClusterKeyGenerationAnnotation
	ClientsCACertGenerationAnnotation = authorities.ClientsCertGenerationAnnotation
	ServerCertHashAnnotation          = "strimzi.io/server-cert-hash"
	ListenerCertsAnnotation           = "strimzi.io/custom-listener-cert-thumbprints"
	// ManualRollingUpdateAnnotation is set by a person on a pod or its
	// StrimziPodSet; see RestartRequested.
	ManualRollingUpdateAnnotation = authorities.RestartAnnotation
)

// annotations renders the values for a node's pod.
func (v PodAnnotations) annotations(node Node) map[string]string {
	annotations := map[string]string{
		ClusterCACertGenerationAnnotation: strconv.FormatInt(v.ClusterCACertGeneration, 10),
		ClusterCAKeyGenerationAnnotation:  strconv.FormatInt(v.ClusterCAKeyGeneration, 10),
		ClientsCACertGenerationAnnotation: strconv.FormatInt(v.ClientsCACertGeneration, 10),
		ServerCertHashAnnotation:          v.ServerCertHash,
	}
	if node.Roles.Broker && len(v.ListenerCertThumbprints) > 0 {
		annotations[ListenerCertsAnnotation] = thumbprints(v.ListenerCertThumbprints)
	}
	if v.Pin != "" {
		annotations[agent.PinAnnotation] = v.Pin
	}
	return annotations
}

// thumbprints renders a map as Java prints one, as Strimzi does.
func thumbprints(byListener map[string]string) string {
	entries := make([]string, 0, len(byListener))
	for _, listener := range slices.Sorted(maps.Keys(byListener)) {
		entries = append(entries, listener+"="+byListener[listener])
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// watched is one annotation whose difference is a reason to restart.
type watched struct {
	annotation string
	code       rollout.ReasonCode
	what       string
}

func shapeAnnotations() []watched {
	return []watched{
		{RevisionAnnotation, rollout.PodSpecChanged, "pod revision"},
		{ResourceRevisionAnnotation, rollout.ResourcesChanged, "resource revision"},
		{ConfigurationHashAnnotation, rollout.ConfigChanged, "configuration"},
		{KafkaVersionAnnotation, rollout.VersionChanged, "Kafka version"},
	}
}

func certificateAnnotations() []watched {
	return []watched{
		{ServerCertHashAnnotation, rollout.CertificatesChanged, "certificate"},
		{ListenerCertsAnnotation, rollout.CertificatesChanged, "listener certificates"},
		{ClusterCAKeyGenerationAnnotation, rollout.TrustAdded, "cluster CA key generation"},
		{ClusterCACertGenerationAnnotation, rollout.OldAuthorityGeneration, "cluster CA certificate generation"},
		{ClientsCACertGenerationAnnotation, rollout.OldAuthorityGeneration, "clients CA certificate generation"},
	}
}

// Reasons says why a pod with the annotations current has to be restarted to get
// the shape of one with the annotations desired: another specification,
// configuration or version, or because a person asked for it on the pod. There
// is none when it is as it should be.
//
// Certificates and trust are not among them: what a server has loaded is known
// from its agent (package publication), and what annotations say is asked for by
// CertificateReasons. Growing file systems and requests on the StrimziPodSet are
// not annotations of the pod; the caller adds their reasons.
func Reasons(current, desired map[string]string) []rollout.Reason {
	reasons := differences(shapeAnnotations(), current, desired)
	if RestartRequested(current) {
		reasons = append(reasons, rollout.Reason{Code: rollout.ManualRollingUpdate, Note: "the pod is annotated"})
	}
	return reasons
}

// CertificateReasons says which certificates and generations have changed since
// the pod was made, as far as its annotations tell. It serves pods whose agent
// does not answer; a pod that has reloaded since has annotations that are older
// than what it has loaded.
func CertificateReasons(current, desired map[string]string) []rollout.Reason {
	return differences(certificateAnnotations(), current, desired)
}

func differences(entries []watched, current, desired map[string]string) []rollout.Reason {
	reasons := []rollout.Reason{}
	for _, entry := range entries {
		before, after := current[entry.annotation], desired[entry.annotation]
		if before != after {
			reasons = append(reasons, rollout.Reason{Code: entry.code, Note: entry.what + " " + change(before, after)})
		}
	}
	return reasons
}

func change(before, after string) string {
	switch {
	case before == "":
		return "is " + after + ", was unknown"
	case after == "":
		return "was " + before + ", is none"
	default:
		return "is " + after + ", was " + before
	}
}
