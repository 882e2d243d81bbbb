package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/imagepull"
)

// revisionRules number what a revision is made of. When hasEffect lets more variables through, revisions by the earlier
// number must be made without them: pods are not replaced because another operator has come.
const revisionRules = "1."

// podShape is what the spec decides about a pod, without what it has no effect on. A field that is added later is left
// out when it is empty, so that revisions stay.
type podShape struct {
	Repository      string                      `json:"repository,omitzero"`
	Labels          map[string]string           `json:"labels,omitempty"`
	Annotations     map[string]string           `json:"annotations,omitempty"`
	NodeSelector    map[string]string           `json:"nodeSelector,omitempty"`
	Affinity        corev1.Affinity             `json:"affinity,omitzero"`
	Tolerations     []corev1.Toleration         `json:"tolerations,omitempty"`
	Resources       corev1.ResourceRequirements `json:"resources,omitzero"`
	SecurityContext corev1.PodSecurityContext   `json:"securityContext,omitzero"`
	Env             []corev1.EnvVar             `json:"env,omitempty"`
	KeyAlgorithm    string                      `json:"keyAlgorithm,omitzero"`
	PeerSecret      string                      `json:"peerSecret,omitzero"`
	ServerSecret    string                      `json:"serverSecret,omitzero"`
}

// PodRevision tells apart pods that are created of different specs. What the operator itself puts into a pod is not in
// it but the repository, and neither is the version of etcd, which is recorded for each member.
func (c Cluster) PodRevision() string {
	env := c.tuning()
	slices.SortFunc(env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	shape := podShape{
		Repository: c.repository, Labels: c.userLabels(), Annotations: c.userAnnotations(), NodeSelector: c.pod.NodeSelector,
		Affinity: orZero(c.pod.Affinity), Tolerations: c.pod.Tolerations, Resources: orZero(c.pod.Resources),
		SecurityContext: orZero(c.pod.SecurityContext), Env: env, KeyAlgorithm: string(c.TLS.Algorithm),
	}
	if c.Static != nil {
		shape.PeerSecret, shape.ServerSecret = c.Static.Peer.Name, c.Static.Server.Name
	}
	text, err := json.Marshal(shape)
	if err != nil {
		return "" // pods are not replaced for it
	}
	digest := sha256.Sum256(text)
	return revisionRules + hex.EncodeToString(digest[:16])
}

// HasOldSpec reports whether a pod was created of another spec. One that does not say so by known rules counts as current.
// So does one with other pull Secrets, unless it waits for its image without one that it would be created with now.
func (c Cluster) HasOldSpec(pod *corev1.Pod) bool {
	if imagepull.Lacks(pod, c.settings.PullSecrets) {
		return true
	}
	created, current := pod.Annotations[RevisionAnnotation], c.PodRevision()
	return strings.HasPrefix(created, revisionRules) && current != "" && created != current
}

// userLabels are those of the spec that pods get.
func (c Cluster) userLabels() map[string]string {
	labels := maps.Clone(c.pod.Labels)
	for own := range c.MemberLabels("") {
		delete(labels, own)
	}
	delete(labels, RoleLabel)
	return labels
}

// userAnnotations are those of the spec without those by which operator and agent speak to each other.
func (c Cluster) userAnnotations() map[string]string {
	annotations := maps.Clone(c.pod.Annotations)
	for _, plane := range contract.Planes() {
		delete(annotations, plane.RequestAnnotation())
		delete(annotations, plane.CertificateAnnotation())
	}
	for _, own := range []string{
		contract.RequestAnnotation, contract.CertificateAnnotation, agent.PublishedAnnotation, agent.GivenAnnotation, agent.PinAnnotation,
		AttestationAnnotation, TrustAnnotation, VersionAnnotation, RevisionAnnotation, contract.StartAnnotation, contract.RestartAnnotation,
	} {
		delete(annotations, own)
	}
	return annotations
}

// tuning are the variables of the spec that have an effect on the version of the spec.
func (c Cluster) tuning() []corev1.EnvVar {
	return slices.DeleteFunc(slices.Clone(c.pod.EtcdEnv), func(variable corev1.EnvVar) bool { return !hasEffect(variable, c.Version) })
}

func orZero[T any](pointer *T) T {
	if pointer == nil {
		return *new(T)
	}
	return *pointer
}
