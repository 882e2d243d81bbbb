package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

const actionBackup = "BackUp"

// report applies the status when it differs. A backup that has ended, and a Ready of another status or reason, are told of once.
func (b *backupPass) report(ctx context.Context) error {
	stored, wanted := b.backup.EtcdBackup, b.backup.Next(b.seen)
	b.options.Metrics.sawBackup(client.ObjectKeyFromObject(stored), wanted.LastSuccessDate, b.backup.Interval())
	if equality.Semantic.DeepEqual(stored.Status, wanted) {
		return nil
	}
	intent, err := recordIntent(etcdv1beta2.GroupVersion.WithKind(etcdv1beta2.KindEtcdBackup), stored, &wanted)
	if err != nil {
		return err
	}
	if err := b.appliers.Of(stored.UID).ApplyStatus(ctx, intent); err != nil {
		return err
	}
	b.tellBackup(wanted.Conditions[0])
	return nil
}

func (b *backupPass) tellBackup(ready metav1.Condition) {
	stored := b.backup.EtcdBackup
	if b.seen.Result != nil {
		b.options.Metrics.backupEnded(client.ObjectKeyFromObject(stored), ready.Reason)
	}
	before := apimeta.FindStatusCondition(stored.Status.Conditions, ready.Type)
	isNews := before == nil || before.Status != ready.Status || before.Reason != ready.Reason
	if b.seen.Result == nil && !isNews {
		return
	}
	kind := corev1.EventTypeWarning
	if ready.Status == metav1.ConditionTrue || ready.Reason == string(model.BackupRunning) {
		kind = corev1.EventTypeNormal
	}
	b.options.Events.Eventf(stored, nil, kind, ready.Reason, actionBackup, "%s", ready.Message)
}
