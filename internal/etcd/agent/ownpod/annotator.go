package ownpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// fieldManager names the agent in the managed fields of its pod.
const fieldManager = "keyturn-agent"

const (
	// patchLimit bounds one write.
	patchLimit = 10 * time.Second
	// answerLimit bounds what is read of an answer.
	answerLimit = 64 << 10
)

// Pod is the pod that the agent runs in.
type Pod struct {
	Namespace, Name, UID string
}

var errIncomplete = errors.New("its namespace, name and UID are needed")

// Annotator writes annotations of one pod.
type Annotator struct {
	pod Pod
	api API
}

// New makes an annotator, which reaches the API server with the pod's own account.
func New(api API, pod Pod) (*Annotator, error) {
	if pod.Namespace == "" || pod.Name == "" || pod.UID == "" {
		return nil, fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, pod.Name, errIncomplete)
	}
	return &Annotator{pod: pod, api: api}, nil
}

// Annotate gives the pod the annotations, beside those that it has. It fails when the pod
// of the name has another UID: then that is another pod, which has taken this one's place.
func (a *Annotator) Annotate(ctx context.Context, annotations map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, patchLimit)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.pod.UID, "annotations": annotations}})
	if err == nil {
		err = a.patch(ctx, patch)
	}
	if err != nil {
		return fmt.Errorf("annotating pod %s/%s of UID %s: %w", a.pod.Namespace, a.pod.Name, a.pod.UID, err)
	}
	return nil
}

func (a *Annotator) patch(ctx context.Context, patch []byte) error {
	target := a.api.URL.JoinPath("api", "v1", "namespaces", a.pod.Namespace, "pods", a.pod.Name)
	target.RawQuery = url.Values{"fieldManager": {fieldManager}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, target.String(), bytes.NewReader(patch))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	// The answer is not needed, and the pod is the longest that there is.
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	request.Header.Set("User-Agent", fieldManager)
	response, err := a.api.Transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	return errors.Join(refusal(response), response.Body.Close())
}

// refusedError is an answer of the API server that is not a success.
type refusedError struct {
	status, message string
}

func (e refusedError) Error() string {
	if e.message == "" {
		return "the API server answered " + e.status
	}
	return "the API server answered " + e.status + ": " + e.message
}

// refusal is nil for an answer of success.
func refusal(response *http.Response) error {
	if response.StatusCode/100 == 2 {
		return nil
	}
	var status struct {
		Message string `json:"message"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, answerLimit)).Decode(&status); err != nil {
		status.Message = "" // a proxy in between answers something else, or nothing
	}
	return refusedError{status: response.Status, message: status.Message}
}
