package cli

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/unattended/controller"
)

// trimmedMetadata is the caching of metadata that tells whether there is a status.
func trimmedMetadata() cache.ByObject {
	return cache.ByObject{Transform: func(object any) (any, error) {
		if object, is := object.(client.Object); is {
			unattended.Trim(object)
			object.SetAnnotations(nil)
			object.SetOwnerReferences(nil)
			object.SetLabels(nil)
		}
		return object, nil
	}}
}

// reportUnattended starts to report objects of these kinds whose operators are missing. A kind without a definition has none.
func reportUnattended(mgr watches.Manager, kinds ...unattended.Kind) error {
	for _, kind := range kinds {
		isServed, err := mgr.Serves(kind.GroupVersionKind)
		if err != nil {
			return fmt.Errorf("looking for the definition of %s: %w", kind.GroupKind(), err)
		}
		if !isServed {
			continue
		}
		r := controller.New(kind, controller.Options{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("keyturn"), Clock: clock.RealClock{},
		})
		if err := r.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("adding controllers: %w", err)
		}
	}
	return nil
}
