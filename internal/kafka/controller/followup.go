package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/pki"
)

// manualRollingUpdate is set by a person, on a pod or on its pod set.
const manualRollingUpdate = model.ManualRollingUpdateAnnotation

// followUp does what comes after the nodes are as they should be.
func (r *Reconciler) followUp(ctx context.Context, c *applied, acted *outcome) error {
	if err := r.followEvidence(ctx, c); err != nil {
		return err
	}
	if len(acted.pending) > 0 || len(c.waitingFor(*acted)) > 0 {
		return nil
	}
	acted.version = c.cluster.Version.Name
	return r.followVersion(ctx, c.decided, acted)
}

// followVersion raises the metadata version once all nodes run a version that
// knows it. It asks Kafka only while the status does not say that it is done.
func (r *Reconciler) followVersion(ctx context.Context, c *decided, acted *outcome) error {
	recorded := release.MetadataVersion(c.kafka.Status.KafkaMetadataVersion)
	desired := c.cluster.Metadata.Desired
	if recorded != "" && recorded.Level() >= desired.Level() {
		return nil
	}
	answers := r.surveyOf(c.observation, survey.Metadata())
	switch err := answers.unanswered[survey.AboutMetadata]; {
	case !answers.isFresh:
		acted.again = answers.again
		return nil
	case err != nil:
		c.retryVersion(acted, answers.again, "read", fmt.Errorf("asking for the metadata version: %w", err))
		return nil
	}
	current := answers.Metadata
	if c.cluster.Metadata.Due(current, c.runningVersions()) {
		err := r.raiseVersion(ctx, c, desired)
		switch {
		case waitedFor(err):
			c.retryVersion(acted, longestWait, "raised to "+string(desired), err)
			return nil
		case err != nil:
			return fmt.Errorf("raising the metadata version to %s: %w", desired, err)
		}
		current = desired
	}
	acted.metadata = current
	return nil
}

// retryVersion says what could not be done about the metadata version, and looks again
// when it may be worthwhile.
func (o *observation) retryVersion(acted *outcome, again time.Duration, done string, err error) {
	acted.again = again
	o.note("Kafka "+o.kafka.Namespace+"/"+o.kafka.Name, model.ReasonMetadataVersion,
		"the metadata version could not be "+done+" yet; it is tried again: "+err.Error())
}

func (r *Reconciler) raiseVersion(ctx context.Context, c *decided, to release.MetadataVersion) error {
	kafka, err := r.options.Connector.Admin(c.access())
	if err != nil {
		return err
	}
	defer kafka.Close()
	return kafka.UpdateMetadataVersion(ctx, to.Level())
}

// runningVersions are the versions that the pods were made for.
func (c *desired) runningVersions() []string {
	versions := make([]string, 0, len(c.cluster.Nodes))
	for _, node := range c.cluster.Nodes {
		pod := c.pods[node.Pod]
		versions = append(versions, pod.Annotations[model.KafkaVersionAnnotation])
	}
	return versions
}

// followEvidence brings the certificate annotations of pods in line with what
// their servers have proven to have loaded: a container that restarted by itself
// may have loaded more than its pod was made with.
func (r *Reconciler) followEvidence(ctx context.Context, c *applied) error {
	return errors.Join(r.followNodes(ctx, c), r.followCompanions(ctx, c.decided))
}

func (r *Reconciler) followNodes(ctx context.Context, c *applied) error {
	return each(ctx, c.cluster.Nodes, func(node model.Node) error {
		pod, exists := c.pods[node.Pod]
		certificates, issued := c.nodes[node.Pod]
		reported := c.reports[node.Pod]
		if !exists || !issued || !reported.known || pod.DeletionTimestamp != nil {
			return nil
		}
		if len(rollout.LoadReasons(certificates.publication, c.cluster.Stores(node), reported.report)) > 0 {
			return nil
		}
		desired, err := c.podOf(node, certificates)
		if err != nil || len(model.CertificateReasons(pod.Annotations, desired.Annotations)) == 0 {
			return err
		}
		return r.followPod(ctx, c.observation, pod, certificateAnnotations(desired.Annotations))
	})
}

// followCompanions writes on the pods of companions which certificate the first of them presents and which CA they trust,
// once all have proven what they have loaded.
func (r *Reconciler) followCompanions(ctx context.Context, c *decided) error {
	return each(ctx, deployments(c.companions), func(d deployment) error {
		at := d[0]
		chain := c.presents(at.Secret, at.certKey())
		if len(chain) == 0 {
			return nil
		}
		desired := map[string]string{
			model.ClusterCACertGenerationAnnotation: c.generationOf(chain, c.stored(at.Secret)).String(),
			model.ClusterCAKeyGenerationAnnotation:  c.clusterCA.KeyGeneration.String(),
			model.ServerCertHashAnnotation:          pki.SHA1Name(chain[0]),
		}
		return each(ctx, podsOfDeployment(d.name(), c.others), func(pod *corev1.Pod) error {
			if !d.isProvenIn(c.polled, pod) || pod.DeletionTimestamp != nil || len(model.CertificateReasons(certificateAnnotations(pod.Annotations), desired)) == 0 {
				return nil
			}
			return r.followPod(ctx, c.observation, pod, desired)
		})
	})
}

// isProvenIn reports whether every companion in a pod has proven that it has loaded what is published to it.
func (d deployment) isProvenIn(c *polled, pod *corev1.Pod) bool {
	return !slices.ContainsFunc(d, func(at observedCompanion) bool {
		own, runs := at.PodOf(pod)
		if !runs {
			return true
		}
		reported := c.reports[own.Name]
		return !reported.known || len(rollout.LoadReasons(c.published(at.Secret), companion.Stores(), reported.report)) > 0
	})
}

func (r *Reconciler) followPod(ctx context.Context, o *observation, pod *corev1.Pod, annotations map[string]string) error {
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(annotations)
	if _, err := r.followers.Of(o.kafka.UID).Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("Kafka %s/%s: %w", o.kafka.Namespace, o.kafka.Name, err)
	}
	return nil
}

// certificateAnnotations are the annotations of a pod that follow certificates.
func certificateAnnotations(desired map[string]string) map[string]string {
	names := []string{
		model.ClusterCACertGenerationAnnotation, model.ClusterCAKeyGenerationAnnotation,
		model.ClientsCACertGenerationAnnotation, model.ServerCertHashAnnotation, model.ListenerCertsAnnotation,
	}
	kept := maps.Clone(desired)
	maps.DeleteFunc(kept, func(name, _ string) bool { return !slices.Contains(names, name) })
	return kept
}

// spreadManualUpdates hands a request for a rolling update of a whole pod set to
// each of its pods, and only then takes it off the set: a pod that is made again
// has been served, so the request cannot be lost or served twice.
func (r *Reconciler) spreadManualUpdates(ctx context.Context, c *applied) error {
	return each(ctx, slices.Sorted(maps.Keys(c.podSets)), func(name string) error {
		set := c.podSets[name]
		if !model.RestartRequested(set.Annotations) {
			return nil
		}
		err := each(ctx, slices.Sorted(maps.Keys(c.pods)), func(podName string) error {
			pod := c.pods[podName]
			if !metav1.IsControlledBy(pod, &set) || model.RestartRequested(pod.Annotations) {
				return nil
			}
			return r.annotatePod(ctx, c.observation, podName)
		})
		if err != nil {
			return err
		}
		return r.removeAnnotation(ctx, &set, manualRollingUpdate)
	})
}

func (r *Reconciler) annotatePod(ctx context.Context, o *observation, name string) error {
	pod := o.pods[name]
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]any{manualRollingUpdate: isTrue},
	}})
	if err != nil {
		return fmt.Errorf("annotating pod %s: %w", name, err)
	}
	if err := r.options.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, name, err)
	}
	return nil
}

// removeAnnotation removes the annotation of a completed request from a set, unless the
// set has changed since it was read.
func (r *Reconciler) removeAnnotation(ctx context.Context, set *podsetv1.StrimziPodSet, annotation string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": set.UID, "resourceVersion": set.ResourceVersion,
		"annotations": map[string]any{annotation: nil},
	}})
	if err != nil {
		return fmt.Errorf("taking %s off StrimziPodSet %s: %w", annotation, set.Name, err)
	}
	if err := r.options.Client.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("taking %s off StrimziPodSet %s/%s: %w", annotation, set.Namespace, set.Name, err)
	}
	return nil
}

func selectorOf(set *podsetv1.StrimziPodSet) *applymetav1.LabelSelectorApplyConfiguration {
	return applymetav1.LabelSelector().WithMatchLabels(set.Spec.Selector.MatchLabels)
}
