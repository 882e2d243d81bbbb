package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/agent/mount/mounttest"
	agentstores "github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// TestStandInForKubeletsFulfilsTheContract holds the kubelet of all these tests to the
// suite that a real one fulfils on the bed. The operator does nothing meanwhile.
func TestStandInForKubeletsFulfilsTheContract(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, func(t *testing.T) mounttest.Subject {
		t.Helper()
		w := newWorld(t)
		w.dualRole(1)
		w.settle()
		n := &nodePod{w: w, name: clusterName + "-dual-0"}
		return mounttest.Subject{
			Store: n.store, Delete: n.delete, Mounted: n.mounted,
			Work: func(ctx context.Context) { w.runKubelet(ctx) },
			Pod:  n.pod, Restart: n.restart, Replace: n.replace,
		}
	})
}

// nodePod is the pod of a node, whose volumes the suite has for itself.
type nodePod struct {
	w    *world
	name string
	// gone is the object that was deleted last.
	gone client.Object
}

func (n *nodePod) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: n.w.namespace, Name: name}
}

func (n *nodePod) object(volume mounttest.Volume) client.Object {
	switch volume {
	case mounttest.Node:
		return &corev1.Secret{ObjectMeta: n.meta(n.name)}
	case mounttest.ClusterTrust:
		return &corev1.Secret{ObjectMeta: n.meta(authorities.Cluster.TrustedCertsSecret(clusterName))}
	default:
		return &corev1.ConfigMap{ObjectMeta: n.meta(n.name)}
	}
}

func (n *nodePod) store(ctx context.Context, volume mounttest.Volume, entries map[string][]byte) error {
	object := n.object(volume)
	err := n.w.api.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) && n.gone != nil {
		object = n.gone
		object.SetResourceVersion("")
		object.SetUID("")
		err = n.w.api.Create(ctx, object)
	}
	if err != nil {
		return err
	}
	switch object := object.(type) {
	case *corev1.Secret:
		maps.Copy(object.Data, entries)
	case *corev1.ConfigMap:
		for name, data := range entries {
			object.Data[name] = string(data)
		}
	}
	if err := n.w.api.Update(ctx, object); err != nil {
		return err
	}
	n.w.did("changed", object)
	return nil
}

func (n *nodePod) delete(ctx context.Context, volume mounttest.Volume) error {
	n.gone = n.object(volume)
	if err := n.w.api.Get(ctx, client.ObjectKeyFromObject(n.gone), n.gone); err != nil {
		return err
	}
	if err := n.w.api.Delete(ctx, n.object(volume)); err != nil {
		return err
	}
	n.w.did("deleted", n.gone)
	return nil
}

func (n *nodePod) mounted(context.Context) (agentstores.Mounted, error) {
	content := n.w.mounted[n.name].files
	return agentstores.Mounted{
		Node:         agentstores.Directory(content[nodeVolume]),
		ClusterTrust: agentstores.Directory(content[clusterVolume]),
		ClientsTrust: agentstores.Directory(content[clientsVolume]),
		Config:       agentstores.Directory(content[configVolume]),
	}, nil
}

var errNotRunning = errors.New("no server runs in the pod")

func (n *nodePod) pod(context.Context) (mounttest.Pod, error) {
	s, running := n.w.serverOf(n.name)
	if !running {
		return mounttest.Pod{}, errNotRunning
	}
	return mounttest.Pod{UID: string(s.uid), Container: s.containerID()}, nil
}

func (n *nodePod) restart(context.Context) error {
	n.w.restartContainer(n.name)
	return nil
}

func (n *nodePod) replace(ctx context.Context) error {
	before, err := n.pod(ctx)
	if err != nil {
		return err
	}
	if err := n.w.api.Delete(ctx, &corev1.Pod{ObjectMeta: n.meta(n.name)}); err != nil {
		return err
	}
	for range maxRounds {
		if err := n.w.keepPods(ctx); err != nil {
			return err
		}
		n.w.runKubelet(ctx)
		if after, err := n.pod(ctx); err == nil && after.UID != before.UID {
			return nil
		}
	}
	return fmt.Errorf("%w: pod %s", errStuck, n.name)
}
