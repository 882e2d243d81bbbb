package apitest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// faultyClient is that of an operator whose writes do not all arrive.
type faultyClient struct {
	kubetest.Writer

	// podsDeleted are the names of the pods that it deleted, in order.
	podsDeleted []string
	// frail operators crash after each write that changes something: a write that changes nothing leaves nothing to
	// continue from. found is the version before a write.
	frail bool
	found string
	// refuses returns why a write does not arrive; nil lets all arrive.
	refuses func(kubetest.Write) error
}

// newFaultyClient lets the world see what the operator writes.
func (w *world) newFaultyClient(api client.Client) *faultyClient {
	return &faultyClient{Writer: kubetest.Writer{Client: api, Before: w.writes, After: w.wrote}}
}

// writes returns why a write of the operator does not arrive.
func (w *world) writes(write kubetest.Write) error {
	if w.faulty.refuses != nil {
		if err := w.faulty.refuses(write); err != nil {
			return err
		}
	}
	w.faulty.found = w.versionIfFrail(write.Object)
	return nil
}

// wrote sees what a write of the operator has changed.
func (w *world) wrote(write kubetest.Write) {
	w.t.Helper()
	w.check(write)
	w.faulty.Crashed = w.faulty.frail && w.versionIfFrail(write.Object) != w.faulty.found
	if pod, isPod := write.Object.(*corev1.Pod); isPod && write.Verb == "delete" {
		w.faulty.podsDeleted = append(w.faulty.podsDeleted, pod.Name)
		w.deleted(pod.Name)
	}
}

func (w *world) versionIfFrail(object any) string {
	if !w.faulty.frail {
		return ""
	}
	return w.version(object)
}

// faultyAdmin counts what the operator changes in Kafka as writes.
type faultyAdmin struct {
	admin.Client

	client *faultyClient
}

func (a faultyAdmin) UnregisterBroker(ctx context.Context, id int32) error {
	return a.client.Count("unregister", id, func() error { return a.Client.UnregisterBroker(ctx, id) })
}

func (a faultyAdmin) UpdateMetadataVersion(ctx context.Context, level int16) error {
	return a.client.Count("update the metadata version to", level, func() error { return a.Client.UpdateMetadataVersion(ctx, level) })
}

// version is the resource version of what an operator writes, or has written. All else
// that is written changes something.
func (w *world) version(object any) string {
	w.t.Helper()
	written, isObject := object.(client.Object)
	if !isObject {
		return fmt.Sprintf("after %d writes", w.faulty.Written)
	}
	kind, err := w.api.GroupVersionKindFor(written)
	if err != nil {
		w.t.Fatal(err)
	}
	var now metav1.PartialObjectMetadata
	now.SetGroupVersionKind(kind)
	if err := w.api.Get(w.t.Context(), w.key(written.GetName()), &now); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return now.ResourceVersion
}

// check judges what a write of the operator has changed, and whether all nodes and clients still accept each other.
func (w *world) check(write kubetest.Write) {
	w.t.Helper()
	w.trace("%s", write)
	if strings.HasPrefix(write.Target(), "ConfigMap ") {
		w.configsChanged = true
	}
	secret, isSecret := write.Object.(*corev1.Secret)
	if !isSecret {
		return
	}
	before := w.stored
	w.seeSecret(write.Verb, secret)
	w.checkStates(authorities.Cluster, before)
	w.checkStates(authorities.Clients, before)
	w.checkGenerations(authorities.Cluster, secret)
	w.checkGenerations(authorities.Clients, secret)
	w.checkStranger()
	w.checkTwice()
	w.checkOperator(before)
	w.watch()
}
