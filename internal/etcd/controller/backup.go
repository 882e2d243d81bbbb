package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// backupPass is one reconcile of an EtcdBackup, with the pass of its cluster.
type backupPass struct {
	*pass

	backup model.Backup
	seen   model.BackupSeen
}

// ReconcileBackup makes the backups of an EtcdBackup, one after the other.
func (r *Reconciler) ReconcileBackup(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// An older one would not have the pod that was created last.
	stored := &etcdv1beta2.EtcdBackup{}
	if err := r.options.Live.Get(ctx, request.NamespacedName, stored); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading EtcdBackup %s: %w", request, err)
		}
		r.options.Metrics.forgetBackup(request.NamespacedName)
		r.statuses.Forget(etcdv1beta2.KindEtcdBackup, request.NamespacedName)
		r.drop(&r.backups, request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if !stored.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its pod goes with it
	}
	if ahead, isWrong := r.options.Ahead.Difference(); isWrong {
		status := stored.Status.DeepCopy()
		return r.reportClock(ctx, stopped{stored, &stored.Status, status, &status.Conditions}, ahead)
	}
	b := &backupPass{pass: &pass{Reconciler: r, now: r.options.Clock.Now(), conditions: stored.Status.Conditions}, backup: model.Backup{EtcdBackup: stored}}
	b.seen.Now, b.memory = b.now, r.recall(&r.backups, stored)
	err := b.run(ctx)
	if found, is := errors.AsType[obstacle](err); is {
		b.seen.Problem = b.problemOf(found)
		b.lookAgain()
	} else if err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	if err := b.report(ctx); err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	if b.wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(b.wake.Sub(b.now), again)}, nil
}

func (b *backupPass) problemOf(found obstacle) *model.Problem {
	if foreign, is := errors.AsType[*foreignObjectError](found); is {
		return b.backup.Foreign(foreign.Kind, foreign.Name)
	}
	return found.problem()
}

// run does what is due. The result of a pod is in the status before the pod is deleted.
func (b *backupPass) run(ctx context.Context) error {
	if b.seen.Problem = b.backup.Check(); b.seen.Problem != nil {
		return nil
	}
	pod, err := b.readPod(ctx)
	if err != nil {
		return err
	}
	switch act := b.backup.Decide(pod, b.now).(type) {
	case model.StartBackup:
		return b.start(ctx)
	case model.AwaitBackup:
		b.seen.Problem = act.Problem
		b.wakeAt(act.Until)
		return b.await(ctx, pod)
	case model.EndBackup:
		b.seen.Result, b.seen.Made = &act.Result, act.Made
		b.wakeAt(b.now.Add(again))
		return nil
	case model.RemoveBackupPod:
		b.wakeAt(b.now.Add(again))
		return kube.Delete(ctx, b.options.Client, pod)
	case model.HoldBackup:
		b.seen.Problem = act.Problem
		b.lookAgain()
		return nil
	case model.NextBackup:
		b.wakeAt(act.At)
		return nil
	default:
		return fmt.Errorf("backing up: act %T is not known", act)
	}
}

// readPod reads the pod past the cache; nil when there is none.
func (b *backupPass) readPod(ctx context.Context) (*corev1.Pod, error) {
	pod, key := &corev1.Pod{}, b.named(b.backup.PodName())
	err := b.options.Live.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	default:
		return pod, nil
	}
}

func (b *backupPass) named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: b.backup.Namespace, Name: name}
}

// start creates the pod of a backup, unless the cluster or the claim is not there for it.
func (b *backupPass) start(ctx context.Context) error {
	if err := b.findCluster(ctx); err != nil || b.seen.Problem != nil {
		return err
	}
	hasQuorum := apimeta.IsStatusConditionTrue(b.etcd.Status.Conditions, etcdv1beta2.ConditionAvailable)
	if hasQuorum { // a claim that is missing costs no look at keys
		if err := b.findClaim(ctx); err != nil || b.seen.Problem != nil {
			return err
		}
	}
	if err := b.readSigner(ctx); err != nil || b.seen.Problem != nil {
		return err
	}
	if !hasQuorum {
		b.seen.Problem = model.WithoutQuorum(b.cluster.Names)
		return nil
	}
	return b.create(ctx)
}

// create creates the pod after everything that it mounts. A pod whose creation is not recorded gets no certificate.
func (b *backupPass) create(ctx context.Context) error {
	if err := b.checkGrant(ctx, b.named(b.backup.PodName())); err != nil {
		return err
	}
	if err := b.applyOwned(ctx, b.backup, b.backup.IsOrphan, b.backup.Account()); err != nil {
		return err
	}
	pin, err := b.publish(ctx)
	if err != nil {
		return err
	}
	b.members = recorded(b.etcd.Status)
	b.attest(ctx)
	pod := b.backup.Pod(b.cluster, string(pin))
	b.stamp(pod)
	if err := b.options.Client.Create(ctx, pod, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	b.seen.Started = pod.UID
	return nil
}

// findClaim looks whether the claim is there, and for backups.
func (b *backupPass) findClaim(ctx context.Context) error {
	var clusters etcdv1beta2.EtcdClusterList
	if err := b.options.Client.List(ctx, &clusters, client.InNamespace(b.backup.Namespace)); err != nil {
		return fmt.Errorf("listing EtcdClusters: %w", err)
	}
	names := []string{b.cluster.Names.Cluster}
	for i := range clusters.Items {
		names = append(names, clusters.Items[i].Name)
	}
	claim, err := readMetadata(ctx, b.options.Live, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), b.named(b.backup.ClaimName()))
	if err != nil {
		return err
	}
	var found metav1.Object
	if claim != nil {
		found = claim
	}
	if b.seen.Problem = b.backup.CheckClaim(found, names); b.seen.Problem != nil {
		b.lookAgain()
	}
	return nil
}

// readCluster reads the cluster, its CAs and its ledger.
func (b *backupPass) readCluster(ctx context.Context) error {
	if err := b.findCluster(ctx); err != nil || b.seen.Problem != nil {
		return err
	}
	return b.readSigner(ctx)
}

func (b *backupPass) readSigner(ctx context.Context) (err error) {
	b.seen.Problem, err = b.readMadeCAs(ctx, contract.Planes()...)
	return err
}

func (b *backupPass) findCluster(ctx context.Context) error {
	names, etcd := b.backup.ClusterNames(), &etcdv1beta2.EtcdCluster{}
	err := b.options.Live.Get(ctx, names.NamespacedName(), etcd)
	switch {
	case apierrors.IsNotFound(err):
		b.seen.Problem = model.WithoutCluster(names)
		return nil
	case err != nil:
		return fmt.Errorf("reading EtcdCluster %s: %w", names.NamespacedName(), err)
	}
	b.etcd = etcd
	b.cluster, b.findings = model.Resolve(etcd, b.options.Settings)
	if b.cluster.Names.Mode != model.Dynamic {
		b.seen.Problem = b.backup.WithoutOwnClients(b.cluster.Names)
	}
	return nil
}

// publish writes what the pod is to trust, without a key, and returns the pin of the pod.
func (b *backupPass) publish(ctx context.Context) ([]byte, error) {
	name := b.backup.PodName()
	stored, err := b.secret(ctx, b.named(name))
	if err != nil {
		return nil, err
	}
	if stored != nil && !b.backup.IsOwned(stored) && !b.backup.IsOrphan(stored) {
		return nil, &foreignObjectError{"Secret", name}
	}
	published, data, err := model.MemberSecret(model.Trust{Anchors: b.authorities.bundles}, dataOf(stored), 0, b.now)
	if err != nil {
		return nil, err
	}
	_, err = kube.WriteSecret(ctx, b.options.Client, fieldOwner, stored, kube.SecretIntent{
		Namespace: b.backup.Namespace, Name: name, Labels: b.backup.Labels(),
		Owners: []metav1.OwnerReference{b.backup.Owner()}, Data: data,
	})
	if err != nil {
		return nil, err
	}
	return published.Encode()
}

// await answers the request of the pod. What is signed is in the ledger before it is in the pod.
func (b *backupPass) await(ctx context.Context, pod *corev1.Pod) error {
	problem := b.seen.Problem
	if err := b.readCluster(ctx); err != nil {
		return err
	}
	if problem != nil || b.seen.Problem != nil {
		b.seen.Problem = cmp.Or(problem, b.seen.Problem)
		return nil
	}
	if b.cluster.TLS.Attestation == etcdv1beta2.AttestationPolicy {
		b.attestation = b.options.Attestor.Verdict(ctx, pod)
	}
	if err := b.inspect(ctx, pod, pod.Namespace); err != nil {
		return err
	}
	switch outcome := b.decide(pod).(type) {
	case enroll.Signed:
		return b.answer(ctx, pod, outcome)
	case enroll.Held:
		b.wakeAt(outcome.Until)
		if outcome.Cause == enroll.NotAttested {
			b.wakeAt(b.now.Add(testAgain))
		}
		if outcome.Cause != enroll.NothingAsked && outcome.Cause != enroll.PodEnding {
			b.seen.Problem = b.backup.Held(string(outcome.Cause), outcome.Detail)
		}
	case enroll.Denied:
		b.seen.Problem = b.backup.Denied(string(outcome.Cause), outcome.Detail)
	}
	return nil
}

func (b *backupPass) decide(pod *corev1.Pod) enroll.Outcome {
	plane := contract.ClientPlane
	return enroll.Decide(enroll.Input{
		Pod: enroll.Pod{
			Name: b.backup.User(), UID: string(pod.UID), Recorded: string(b.backup.Status.PodUID),
			IsEnding: !pod.DeletionTimestamp.IsZero(), HasAddress: true, // it has no name of an address
		},
		Plane: plane, Request: pod.Annotations[plane.RequestAnnotation()], Answer: pod.Annotations[plane.CertificateAnnotation()],
		IsAttested: b.isAttested(pod), Usages: []pki.Usage{pki.ClientAuth}, Validity: b.backup.Validity(b.cluster),
		CA: b.authorities.cas[plane], Ledger: b.ledger.issued, Namespace: b.backup.Namespace, Now: b.now,
	})
}

func (b *backupPass) answer(ctx context.Context, pod *corev1.Pod, signed enroll.Signed) error {
	holder := enroll.Holder{PodUID: string(pod.UID), Plane: contract.ClientPlane}
	b.ledger.issued.RecordBackup(signed.Leaf, b.authorities.cas[contract.ClientPlane].Certificate(), holder, b.backup.Namespace, b.now)
	if err := errors.Join(b.writeLedger(ctx), b.checkSigner(ctx)); err != nil {
		return err
	}
	annotations := map[string]string{contract.ClientPlane.CertificateAnnotation(): signed.Answer}
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(annotations)
	if _, err := b.memory.pods.Apply(ctx, intent, nil); err != nil {
		return err
	}
	b.issued(pod, contract.ClientPlane, signed)
	return nil
}
