package model

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/unattended"
)

// UnattendedAccess is what becomes of EtcdAccesses while the etcd operator does not look at them.
func UnattendedAccess() unattended.Kind {
	return unattended.Kind{
		GroupVersionKind: keyturnv1alpha1.GroupVersion.WithKind("EtcdAccess"), Owner: Manager, Condition: "Ready", Status: metav1.ConditionFalse,
		Message: func(metav1.Object) string {
			return "The etcd operator does not look at EtcdAccesses, and the Secret of this one is not written. Set etcd.access.enabled in the values of the chart."
		},
	}
}
