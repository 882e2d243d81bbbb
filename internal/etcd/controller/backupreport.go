package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/operate"
)

const actionBackup = "BackUp"

// report applies the status when it differs. A backup that has ended, and a Ready of another status or reason, are told of once.
func (b *backupPass) report(ctx context.Context) error {
	stored, wanted := b.backup.EtcdBackup, b.backup.Next(b.seen)
	b.options.Metrics.sawBackup(client.ObjectKeyFromObject(stored), wanted.LastSuccessDate, b.backup.Interval())
	if isWritten, err := b.statuses.Record(ctx, stored, &stored.Status, &wanted); err != nil || !isWritten {
		return err
	}
	b.tellBackup(wanted.Conditions)
	return nil
}

func (b *backupPass) tellBackup(wanted []metav1.Condition) {
	stored, ready := b.backup.EtcdBackup, &wanted[0]
	news := operate.News(stored.Status.Conditions, wanted, ready.Type)
	if b.seen.Result != nil {
		b.options.Metrics.backupEnded(client.ObjectKeyFromObject(stored), ready.Reason)
		news = ready
	}
	b.events(actionBackup).Announce(stored, news, string(model.BackupRunning))
}
