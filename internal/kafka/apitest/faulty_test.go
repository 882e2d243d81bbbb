package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// errCrash is what the operator sees when it has crashed: nothing it wants to
// write arrives any more.
var errCrash = errors.New("the operator has crashed")

// faultyClient counts the operator's writes and lets it crash at one of them.
type faultyClient struct {
	client.Client

	writes int
	// podsDeleted are the names of the pods that it deleted, in order.
	podsDeleted []string
	// crashAt is the number of the write from which on nothing arrives; 0 means
	// that the operator does not crash there.
	crashAt int
	// frail operators crash after each write that changes something: of one that
	// changes nothing, nothing is left that could be gone on from. The version tells
	// before a write and after it what is there.
	frail   bool
	version func(object any) string
	// crashed is set when nothing arrives any more.
	crashed bool
	// refuses says why a write does not arrive; nil means that it does.
	refuses func(object any) error
	// deleted is told of each pod whose deletion arrived, arrived of every write.
	deleted func(name string)
	arrived func(verb string, object any)
}

func (c *faultyClient) count(verb string, object any, write func() error) error {
	c.crashed = c.crashed || c.crashAt > 0 && c.writes+1 >= c.crashAt
	if c.crashed {
		return errCrash
	}
	if c.refuses != nil {
		if err := c.refuses(object); err != nil {
			return err
		}
	}
	before := c.versionIfFrail(object)
	if err := write(); err != nil {
		return err
	}
	c.writes++
	c.arrived(verb, object)
	c.crashed = c.frail && c.versionIfFrail(object) != before
	return nil
}

func (c *faultyClient) versionIfFrail(object any) string {
	if !c.frail {
		return ""
	}
	return c.version(object)
}

func (c *faultyClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.count("create", obj, func() error { return c.Client.Create(ctx, obj, opts...) })
}

func (c *faultyClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := c.count("delete", obj, func() error { return c.Client.Delete(ctx, obj, opts...) })
	if err != nil {
		return err
	}
	if _, isPod := obj.(*corev1.Pod); isPod {
		c.podsDeleted = append(c.podsDeleted, obj.GetName())
		c.deleted(obj.GetName())
	}
	return nil
}

func (c *faultyClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.count("patch", obj, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c *faultyClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.count("apply", obj, func() error { return c.Client.Apply(ctx, obj, opts...) })
}

func (c *faultyClient) Status() client.SubResourceWriter {
	return faultyStatus{SubResourceWriter: c.Client.Status(), client: c}
}

type faultyStatus struct {
	client.SubResourceWriter

	client *faultyClient
}

func (s faultyStatus) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.client.count("apply status of", obj, func() error { return s.SubResourceWriter.Apply(ctx, obj, opts...) })
}

// faultyAdmin counts what the operator changes in Kafka as writes.
type faultyAdmin struct {
	admin.Client

	client *faultyClient
}

func (a faultyAdmin) UnregisterBroker(ctx context.Context, id int32) error {
	return a.client.count("unregister", id, func() error { return a.Client.UnregisterBroker(ctx, id) })
}

func (a faultyAdmin) UpdateMetadataVersion(ctx context.Context, level int16) error {
	return a.client.count("update the metadata version to", level, func() error { return a.Client.UpdateMetadataVersion(ctx, level) })
}

// version is the resource version of what an operator writes, or has written. All else
// that is written changes something.
func (w *world) version(object any) string {
	w.t.Helper()
	written, isObject := object.(client.Object)
	if !isObject {
		return fmt.Sprintf("after %d writes", w.faulty.writes)
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

// wrote sees what a write of the operator has changed, and whether everybody still
// accepts everybody.
func (w *world) wrote(verb string, object any) {
	w.t.Helper()
	w.trace("%s %s", verb, nameOf(object))
	if strings.HasPrefix(nameOf(object), "ConfigMap ") {
		w.configsChanged = true
	}
	secret, isSecret := object.(*corev1.Secret)
	if !isSecret {
		return
	}
	before := w.stored
	w.seeSecret(verb, secret)
	w.checkStates(authorities.Cluster, before)
	w.checkStates(authorities.Clients, before)
	w.checkGenerations(authorities.Cluster, secret)
	w.checkGenerations(authorities.Clients, secret)
	w.checkStranger()
	w.checkTwice()
	w.checkOperator(before)
	w.watch()
}

// nameOf names a written object, whatever it is.
func nameOf(object any) string {
	named, isObject := object.(interface{ GetName() string })
	if !isObject {
		return fmt.Sprint(object)
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
	if typed, isTyped := object.(interface{ GetKind() string }); isTyped {
		kind = typed.GetKind()
	}
	return kind + " " + named.GetName()
}
