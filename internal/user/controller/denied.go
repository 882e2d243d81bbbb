package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/user/model"
)

// unnoticed are the warnings about watches that are denied and on which users depend.
func (r *Reconciler) unnoticed(ctx context.Context) ([]model.Remark, error) {
	watched := []schema.GroupResource{
		kafkav1.GroupVersion.WithResource("kafkausers").GroupResource(), kafkav1.GroupVersion.WithResource("kafkas").GroupResource(), corev1.Resource("secrets"),
	}
	kafka, _, err := r.kafka(ctx)
	if err != nil {
		return nil, err
	}
	if model.OfIssuer(kafka) {
		watched = append(watched, kafkamodel.CertificatesResource())
	}
	var warnings []model.Remark
	for _, denial := range r.options.Watches.Denied(r.options.Cluster.Namespace, watched...) {
		warnings = append(warnings, model.Remark{Reason: model.WatchDenied, Message: denial.Report("the user operator",
			"Changes are not noticed: the user is as it was seen last, and its certificate is still renewed.")})
	}
	return warnings, nil
}

// textOf are the messages of warnings.
func textOf(warnings []model.Remark) string {
	var text strings.Builder
	for _, warning := range warnings {
		text.WriteString(warning.Message)
	}
	return text.String()
}

// refreshStatus reads the status of a user past the cache, which shows an old one while KafkaUsers are not watched and a moment
// after that. What the user asks for stays that of the cache.
func (r *Reconciler) refreshStatus(ctx context.Context, user *kafkav1.KafkaUser, unnoticed []model.Remark) error {
	name := client.ObjectKeyFromObject(user)
	if last, _ := r.memory.users.Of(name); len(unnoticed) == 0 && last.version.unnoticed == "" {
		return nil
	}
	var stored kafkav1.KafkaUser
	switch err := r.options.Live.Get(ctx, name, &stored); {
	case apierrors.IsForbidden(err):
		return nil // a right that is lost keeps no certificate from being renewed
	case err != nil:
		return fmt.Errorf("reading the status of KafkaUser %s: %w", name, err)
	}
	user.Status = stored.Status
	return nil
}

// usersByWatches has all users reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) usersByWatches() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		requests := r.allUsers(ctx, nil)
		names := make([]types.NamespacedName, 0, len(requests))
		for _, request := range requests {
			names = append(names, request.NamespacedName)
		}
		return names, nil
	})
}
