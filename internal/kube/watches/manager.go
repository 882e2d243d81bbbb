package watches

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Manager is a manager whose watches are observed: a denied one fails /readyz and is logged, and the error with which the
// manager ends names it.
type Manager struct {
	ctrl.Manager

	// Watches are those of all caches of the manager.
	Watches *Observer
}

// NewManager returns a Manager. The configuration is changed: its requests are observed.
func NewManager(config *rest.Config, options *manager.Options, observer *Observer) (Manager, error) {
	config.Wrap(observer.Transport)
	mapped, provide := *options, options.MapperProvider
	if provide == nil {
		provide = apiutil.NewDynamicRESTMapper
	}
	mapped.MapperProvider = func(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
		known, err := provide(config, client)
		return mapper{RESTMapper: known, observer: observer}, err
	}
	mgr, err := ctrl.NewManager(config, mapped)
	if err != nil {
		return Manager{}, err
	}
	if err := mgr.AddReadyzCheck("watches", observer.Ready); err != nil {
		return Manager{}, fmt.Errorf("adding health checks: %w", err)
	}
	logged := manager.RunnableFunc(func(ctx context.Context) error {
		observer.Follow(ctx, func(denials []*DeniedError) {
			for _, denial := range denials {
				mgr.GetLogger().Error(denial, "changes are not noticed")
			}
			if len(denials) == 0 {
				mgr.GetLogger().Info("changes are noticed again")
			}
		})
		return nil
	})
	if err := mgr.Add(logged); err != nil {
		return Manager{}, fmt.Errorf("adding the log of denied watches: %w", err)
	}
	return Manager{Manager: mgr, Watches: observer}, nil
}

// Serves reports whether the API server has a kind. One that it lacks is not missing: it is only asked about.
func (m Manager) Serves(kind schema.GroupVersionKind) (bool, error) {
	known := m.GetRESTMapper()
	if observed, is := known.(mapper); is {
		known = observed.RESTMapper
	}
	_, err := known.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Start runs the manager until the context ends, or until a cache could not be filled in time.
func (m Manager) Start(ctx context.Context) error { return m.Watches.Explain(m.Manager.Start(ctx)) }

// mapper notes kinds that the API server does not have: no cache lists or watches them.
type mapper struct {
	meta.RESTMapper

	observer *Observer
}

// RESTMapping implements meta.RESTMapper.
func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	of := scope{resource: resource.GroupResource(), selectors: "kind"}
	switch {
	case err == nil:
		m.observer.answered(of, watch, http.StatusOK)
	case meta.IsNoMatchError(err):
		m.observer.answered(of, list, http.StatusNotFound)
	}
	return mapping, err
}
