package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/probe/application"
)

// applicationPort is where the client of the examples serves its account.
const applicationPort = "8080"

// Available says whether a Deployment has reached its present specification, with all
// of its pods ready and none left of a former one.
func Available(deployment *appsv1.Deployment) bool {
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	return deployment.Status.ObservedGeneration == deployment.Generation &&
		deployment.Status.Replicas == wanted && deployment.Status.UpdatedReplicas == wanted && deployment.Status.AvailableReplicas == wanted
}

// Account asks the client that a Deployment runs for its account, through the API
// server.
func (k Kafka) Account(ctx context.Context, name string) (application.Account, error) {
	deployment := &appsv1.Deployment{}
	if err := k.Kube.Get(ctx, k.Key(name), deployment); err != nil {
		return application.Account{}, fmt.Errorf("reading Deployment %s: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := k.Kube.List(ctx, pods, selected(k.Namespace, deployment.Spec.Selector.MatchLabels)...); err != nil {
		return application.Account{}, fmt.Errorf("listing pods of Deployment %s: %w", name, err)
	}
	ready := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return podReady(&pod) })
	if ready < 0 {
		return application.Account{}, fmt.Errorf("asking Deployment %s for its account: none of its %d pods is ready", name, len(pods.Items))
	}
	pod := pods.Items[ready].Name
	text, err := k.Kube.Plain.CoreV1().Pods(k.Namespace).ProxyGet("http", pod, applicationPort, "/account", nil).DoRaw(ctx)
	if err != nil {
		return application.Account{}, fmt.Errorf("asking pod %s for its account: %w", pod, err)
	}
	var account application.Account
	if err := json.Unmarshal(text, &account); err != nil {
		return application.Account{}, fmt.Errorf("reading the account of pod %s: %w", pod, err)
	}
	return account, nil
}

// ApplicationOperators are the values of the chart that add a user operator for the cluster and the access operator.
func (k Kafka) ApplicationOperators() map[string]any {
	return map[string]any{
		"userOperators":  []map[string]string{{"namespace": k.Namespace, "cluster": k.Name}},
		"accessOperator": map[string]any{"enabled": true},
	}
}

// ApplyApplication applies the files of the example, the image alone replaced, in the order of their names: the pod
// waits for its Secret, and the access for its user.
func (k Kafka) ApplyApplication(ctx context.Context) error {
	image, err := k.Kube.OperatorImage(ctx)
	if err != nil {
		return err
	}
	for _, file := range []string{"access.yaml", "client.yaml", "user.yaml"} {
		manifest, err := k.Kube.Example("application/" + file)
		if err != nil {
			return err
		}
		if err := manifest.SetImage(image); err != nil {
			return err
		}
		if err := k.Kube.Apply(ctx, k.Namespace, manifest); err != nil {
			return err
		}
	}
	return nil
}
