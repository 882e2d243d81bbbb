package podset

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kube"
)

// fieldOwner owns the status of StrimziPodSets.
const fieldOwner = "keyturn-podset"

// Reconciler keeps the pods of StrimziPodSets in existence.
type Reconciler struct {
	client client.Client
	// live reads past the cache, which knows that a set exists and no more: a pod that the
	// cache does not have yet must not be taken for missing by its name alone, and a foreign
	// one carries no label by which the cache would know it.
	live    client.Reader
	scheme  *runtime.Scheme
	clock   clock.PassiveClock
	applier *kube.Applier
	maker   Maker
}

// NewReconciler returns a Reconciler that reads from cached which StrimziPodSets there are,
// and pods, and from live what a set describes. It asks live before it creates pods.
func NewReconciler(cached client.Client, live client.Reader, scheme *runtime.Scheme, now clock.PassiveClock, maker Maker) *Reconciler {
	return &Reconciler{
		client: cached, live: live, scheme: scheme, clock: now, maker: maker,
		applier: kube.NewApplier(cached, fieldOwner),
	}
}

// SetupWithManager starts the controller for StrimziPodSets and the pods they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("podset").
		For(mention()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(),
			&podsetv1.StrimziPodSet{}, handler.OnlyControllerOwner())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the StrimziPodSet controller: %w", err)
	}
	return nil
}

// mention is what the cache holds of a set: that there is one, whose it is and who has
// written it.
func mention() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(podsetv1.GroupVersion.WithKind("StrimziPodSet"))
	return object
}

// Reconcile creates what is missing, clears away what has ended, and reports. Of a set that
// is not the maker's nothing is read but that: another operator has sets of its own, in which
// this one has no say.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	known := mention()
	if err := r.client.Get(ctx, request.NamespacedName, known); err != nil {
		return ctrl.Result{}, ignoreGone(err, request)
	}
	if !r.isKept(known) {
		return ctrl.Result{}, nil
	}
	var set podsetv1.StrimziPodSet
	if err := r.live.Get(ctx, request.NamespacedName, &set); err != nil {
		return ctrl.Result{}, ignoreGone(err, request)
	}
	return r.keep(ctx, &set)
}

func ignoreGone(err error, request ctrl.Request) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("reading StrimziPodSet %s: %w", request, err)
}

// isKept reports whether the pods of a set are kept in existence.
func (r *Reconciler) isKept(set metav1.Object) bool {
	return set.GetDeletionTimestamp().IsZero() && kube.Applied(set, r.maker.FieldOwner)
}

// keep reconciles a set. It first checks the owner and the writer of the set. If its pods would not be
// made, it does not ask the API server for pods that the cache does not show.
func (r *Reconciler) keep(ctx context.Context, set *podsetv1.StrimziPodSet) (ctrl.Result, error) {
	if !r.isKept(set) {
		return ctrl.Result{}, nil
	}
	readers, why := []client.Reader{r.client}, r.refusesSet(set)
	if why == "" {
		readers = append(readers, r.live)
	}
	observed, hidden, err := observe(ctx, set, readers...)
	if err != nil {
		return ctrl.Result{}, err
	}
	decided, err := decide(set, observed)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	refused, err := r.applyIfAllowed(ctx, why, set, decided)
	if err != nil && len(refused) == 0 {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	decided.status.Conditions = append(decided.status.Conditions, refusal(refused, set.Status.Conditions)...)
	result := ctrl.Result{}
	if hidden || len(refused) > 0 {
		// The pod may have lost its labels, and then no event tells when it ends. Nor does an event tell when
		// the reason is gone for which pods were refused.
		result.RequeueAfter = kube.Unwatched
	}
	return result, errors.Join(kube.IgnoreEnding(err), r.report(ctx, set, decided.status))
}

// observe returns the pods that exist under the described names, and whether the first
// reader, the cache, lacks one of them. Those are looked up by the next: creating is the rare
// case, and a foreign pod must be seen.
func observe(ctx context.Context, set *podsetv1.StrimziPodSet, readers ...client.Reader) (observed []corev1.Pod, hidden bool, err error) {
	described, err := describedPods(set)
	if err != nil {
		return nil, false, reconcile.TerminalError(err)
	}
	for i := range described {
		name := types.NamespacedName{Namespace: set.Namespace, Name: described[i].Name}
		for at, reader := range readers {
			pod, exists, err := find(ctx, reader, name)
			if err != nil {
				return nil, false, err
			}
			if exists {
				observed, hidden = append(observed, pod), hidden || at > 0
				break
			}
		}
	}
	return observed, hidden, nil
}

func find(ctx context.Context, reader client.Reader, name types.NamespacedName) (corev1.Pod, bool, error) {
	var pod corev1.Pod
	err := reader.Get(ctx, name, &pod)
	if err != nil && !apierrors.IsNotFound(err) {
		return corev1.Pod{}, false, fmt.Errorf("reading pod %s: %w", name, err)
	}
	return pod, err == nil, nil
}

// applyIfAllowed applies a plan if the pods of the set may be made. Otherwise there is a reason, which is
// returned if some are missing or have ended. Those that have ended stay: they tell why.
func (r *Reconciler) applyIfAllowed(ctx context.Context, why string, set *podsetv1.StrimziPodSet, decided plan) (refused []string, err error) {
	switch {
	case why == "":
		return r.apply(ctx, set, decided)
	case len(decided.create)+len(decided.remove) > 0:
		return []string{why}, nil
	default:
		return nil, nil
	}
}

// apply clears ended pods away and makes missing ones, each on its own. It returns why
// those are refused, if they are.
func (r *Reconciler) apply(ctx context.Context, set *podsetv1.StrimziPodSet, decided plan) (refused []string, err error) {
	var failed []error
	for i := range decided.remove {
		failed = append(failed, kube.Delete(ctx, r.client, &decided.remove[i]))
	}
	if len(decided.create) == 0 {
		return nil, errors.Join(failed...)
	}
	newest, current, err := r.newest(ctx, set)
	if err != nil || !current {
		return nil, errors.Join(append(failed, err)...)
	}
	pods, refused, err := r.admit(ctx, &newest, decided.create)
	if err != nil {
		return nil, errors.Join(append(failed, err)...)
	}
	var denied Refusals
	for i := range pods {
		err := r.create(ctx, set, &pods[i])
		if kube.IsRefused(err) {
			denied.Add(pods[i].Name, "is denied by the API server: "+err.Error(), allowed)
			err = nil
		}
		failed = append(failed, err)
	}
	return append(refused, denied.Sentences()...), errors.Join(failed...)
}

// allowed is what can be done about a pod that the API server does not create.
const allowed = "change the quota or the admission policy that the answer names"

// newest is the set as it is now, and whether it is still the one that was decided on.
// A pod is stopped to get its new description; a set that was read a moment ago may hold
// the old one. The newer set is on its way and causes a pass of its own.
func (r *Reconciler) newest(ctx context.Context, set *podsetv1.StrimziPodSet) (podsetv1.StrimziPodSet, bool, error) {
	var newest podsetv1.StrimziPodSet
	err := r.live.Get(ctx, client.ObjectKeyFromObject(set), &newest)
	if apierrors.IsNotFound(err) {
		return newest, false, nil
	}
	if err != nil {
		return newest, false, fmt.Errorf("reading StrimziPodSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return newest, newest.UID == set.UID && newest.Generation == set.Generation && newest.DeletionTimestamp.IsZero(), nil
}

func (r *Reconciler) create(ctx context.Context, set *podsetv1.StrimziPodSet, pod *corev1.Pod) error {
	if err := controllerutil.SetControllerReference(set, pod, r.scheme); err != nil {
		return fmt.Errorf("owning pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	err := r.client.Create(ctx, pod, client.FieldOwner(fieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (r *Reconciler) report(ctx context.Context, set *podsetv1.StrimziPodSet, status podsetv1.StrimziPodSetStatus) error {
	for i := range status.Conditions {
		if status.Conditions[i].LastTransitionTime == "" {
			status.Conditions[i].LastTransitionTime = r.clock.Now().UTC().Format(time.RFC3339)
		}
	}
	if reflect.DeepEqual(status, set.Status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encoding status of StrimziPodSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	intent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": podsetv1.GroupVersion.String(),
		"kind":       "StrimziPodSet",
		"metadata":   map[string]any{"name": set.Name, "namespace": set.Namespace},
		"status":     fields,
	}}
	err = r.applier.ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
