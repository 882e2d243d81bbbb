package ownpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// fieldManager names the agent in the managed fields of its pod.
const fieldManager = "keyturn-agent"

// patchLimit bounds one write.
const patchLimit = 10 * time.Second

// Pod is the pod that the agent runs in.
type Pod struct {
	Namespace, Name string
	UID             types.UID
}

var errIncomplete = errors.New("its namespace, name and UID are needed")

// Annotator writes annotations of one pod.
type Annotator struct {
	pod    Pod
	client metadata.Interface
}

// New makes an annotator. The configuration is that of the pod's own account.
func New(config *rest.Config, pod Pod) (*Annotator, error) {
	if pod.Namespace == "" || pod.Name == "" || pod.UID == "" {
		return nil, fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, pod.Name, errIncomplete)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return &Annotator{pod: pod, client: client}, nil
}

// Annotate gives the pod the annotations, beside those that it has. It fails when the pod
// of the name has another UID: then that is another pod, which has taken this one's place.
func (a *Annotator) Annotate(ctx context.Context, annotations map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.pod.UID, "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("annotating pod %s/%s: %w", a.pod.Namespace, a.pod.Name, err)
	}
	_, err = a.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(a.pod.Namespace).
		Patch(ctx, a.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("annotating pod %s/%s of UID %s: %w", a.pod.Namespace, a.pod.Name, a.pod.UID, err)
	}
	return nil
}
