package controller

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/pki"
)

const actionGrant = "GrantAccess"

// accessPass is one reconcile of an EtcdAccess, with the pass of the cluster that it refers to.
type accessPass struct {
	*pass

	access *keyturnv1alpha1.EtcdAccess
	stored *corev1.Secret
	// leaf is the certificate in the Secret, nil when there is none.
	leaf *x509.Certificate
}

// ReconcileAccess keeps the Secret of an EtcdAccess.
func (r *Reconciler) ReconcileAccess(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	access := &keyturnv1alpha1.EtcdAccess{}
	if err := r.options.Client.Get(ctx, request.NamespacedName, access); err != nil {
		if apierrors.IsNotFound(err) {
			r.accessed.ReferTo(request.NamespacedName, nil)
			r.statuses.Forget(keyturnv1alpha1.KindEtcdAccess, request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading EtcdAccess %s: %w", request, err)
	}
	if !access.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its Secret goes with it
	}
	if ahead, isWrong := r.options.Ahead.Difference(); isWrong {
		status := access.Status.DeepCopy()
		return r.reportClock(ctx, stopped{access, &access.Status, status, &status.Conditions}, ahead)
	}
	a := &accessPass{pass: &pass{Reconciler: r, now: r.options.Clock.Now(), conditions: access.Status.Conditions}, access: access}
	if err := a.run(ctx); err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	if a.wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(a.wake.Sub(a.now), again)}, nil
}

// run brings the Secret up to date, and reports.
func (a *accessPass) run(ctx context.Context) (err error) {
	if err := a.findCluster(ctx); err != nil {
		return err
	}
	a.watch()
	a.stored, err = a.secret(ctx, types.NamespacedName{Namespace: a.access.Namespace, Name: model.AccessSecret(a.access)})
	if err != nil {
		return err
	}
	if a.stored != nil && !model.IsOfAccess(a.stored, a.access) {
		a.stored = nil
		if a.problem == nil {
			a.problem = model.ForeignSecret(model.AccessSecret(a.access))
		}
	}
	a.leaf = leafOf(a.stored)
	if err := a.follow(ctx); err != nil {
		return err
	}
	a.checkWatches()
	return a.reportAccess(ctx)
}

// findCluster reads the cluster, if the reference is allowed. The cache may show a consent that was withdrawn.
func (a *accessPass) findCluster(ctx context.Context) error {
	if a.problem = model.CheckAccess(a.access); a.problem != nil {
		return nil
	}
	cluster, etcd := model.AccessedCluster(a.access), &etcdv1beta2.EtcdCluster{}
	err := a.options.Live.Get(ctx, cluster.NamespacedName(), etcd)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		a.problem = model.NotAllowed(cluster, a.access.Namespace)
		return nil
	case err != nil:
		return fmt.Errorf("reading EtcdCluster %s: %w", cluster.NamespacedName(), err)
	}
	a.etcd = etcd
	a.cluster, a.findings = model.Resolve(etcd, a.options.Settings)
	switch {
	case !model.Consents(etcd, a.access.Namespace):
		a.problem = model.NotAllowed(cluster, a.access.Namespace)
	case a.cluster.Names.Mode != model.Dynamic:
		a.problem = model.WithoutOwnCA(a.cluster.Names)
	}
	return nil
}

// watch watches what the EtcdAccess depends on before that is read: nothing while the cluster issues it nothing.
func (a *accessPass) watch() {
	var objects []types.NamespacedName
	if a.problem == nil {
		objects = []types.NamespacedName{
			{Namespace: a.access.Namespace, Name: model.AccessSecret(a.access)},
			{Namespace: a.options.Namespace, Name: a.cluster.Names.CACertSecret(contract.ClientPlane)},
		}
	}
	a.accessed.ReferTo(client.ObjectKeyFromObject(a.access), objects)
}

// follow writes the Secret, or withdraws it from an application whose namespace is not allowed any more.
func (a *accessPass) follow(ctx context.Context) (err error) {
	if a.etcd != nil && !model.Consents(a.etcd, a.access.Namespace) {
		return a.withdraw(ctx)
	}
	if a.problem != nil {
		return nil
	}
	if a.problem, err = a.readMadeCAs(ctx, contract.ClientPlane); err != nil || a.problem != nil {
		return err
	}
	return a.grant(ctx)
}

// withdraw deletes the Secret of an application that may not connect any more.
func (a *accessPass) withdraw(ctx context.Context) error {
	if a.stored == nil {
		return nil
	}
	if err := kube.Delete(ctx, a.options.Client, a.stored); err != nil {
		return err
	}
	a.options.Events.Eventf(a.access, nil, corev1.EventTypeWarning, "AccessWithdrawn", actionGrant,
		"Deleted Secret %s: the EtcdCluster does not allow namespace %s any more", a.stored.Name, a.access.Namespace)
	a.stored, a.leaf = nil, nil
	return nil
}

// readMadeCAs reads CAs that the EtcdCluster's own reconcile makes, and the ledger.
func (p *pass) readMadeCAs(ctx context.Context, planes ...contract.Plane) (*model.Problem, error) {
	names := p.cluster.Names
	p.authorities = newAuthorities()
	problem, err := p.readLedger(ctx)
	if problem != nil || err != nil {
		p.lookAgain()
		return problem, err
	}
	if err := p.readPods(ctx, p.options.Client); err != nil {
		return nil, err
	}
	trusted, err := p.readTrusted(ctx, recorded(p.etcd.Status))
	if err != nil {
		return nil, err
	}
	for _, plane := range planes {
		act, err := p.lookAtCA(ctx, plane, trusted[plane])
		if err != nil {
			return nil, err
		}
		use, is := act.(model.UseCA)
		if !is || p.now.After(use.CA.Certificate().NotAfter) || !p.etcd.DeletionTimestamp.IsZero() {
			if hasCAs(p.etcd) {
				p.lookAgain() // a lost Secret is restored, which no event tells of
			}
			return model.WithoutCA(names), nil
		}
	}
	return nil, nil //nolint:nilnil // having no problem is no error
}

// errOtherSigner is a CA that has stopped signing since it was read.
var errOtherSigner = errors.New("another CA signs now")

// checkSigner fails when another client CA signs than the one that was read. It is called after the ledger is written: a
// reconcile that withdraws the former CA reads the ledger after the new one signs, and finds what was recorded before.
func (p *pass) checkSigner(ctx context.Context) error {
	name := p.cluster.Names.CAKeySecret(contract.ClientPlane)
	present, err := p.private(ctx, name)
	if err != nil {
		return err
	}
	if !bytes.Equal(dataOf(present)[authority.KeyKey], dataOf(p.authorities.secrets[name])[authority.KeyKey]) {
		return fmt.Errorf("issuing a certificate by Secret %s: %w", name, errOtherSigner)
	}
	return nil
}

// grant issues a certificate if one is due, and writes the Secret. It is in the ledger before it is in the Secret.
func (a *accessPass) grant(ctx context.Context) error {
	request, key, err := a.request()
	if err != nil {
		return err
	}
	if err := a.recordExposed(ctx, enroll.Exposed(request), a.owner()); err != nil {
		return err
	}
	elsewhere, err := a.elsewhere(ctx)
	if err != nil {
		return err
	}
	user := model.AccessUser(a.access)
	outcome := enroll.Decide(enroll.Input{
		Pod:   enroll.Pod{Name: user, UID: string(a.access.UID), Recorded: string(a.access.UID), HasAddress: true},
		Plane: contract.ClientPlane, Request: request, Answer: encoded(a.stored, model.OperatorCertEntry),
		Usages: []pki.Usage{pki.ClientAuth}, Validity: a.cluster.TLS.LeafValidity,
		CA: a.authorities.cas[contract.ClientPlane], Ledger: a.ledger.issued, IsAttested: true, Now: a.now,
		Namespace: a.access.Namespace, Elsewhere: elsewhere,
	})
	switch outcome := outcome.(type) {
	case enroll.Signed:
		if err := a.tryWrite(ctx, outcome.Answer, key); err != nil || a.problem != nil {
			return err
		}
		return a.issue(ctx, outcome, key)
	case enroll.Answered:
		a.wakeAt(outcome.RenewalAt)
		return a.writeAccess(ctx, encoded(a.stored, model.OperatorCertEntry), key)
	case enroll.Held:
		a.wakeAt(outcome.Until)
		a.problem = &model.Problem{Reason: model.Reason(outcome.Cause), Message: fmt.Sprintf(
			"No certificate is issued for now: %s. One that was issued stays in the Secret. %s", outcome.Detail, remedyOf(outcome.Cause))}
	case enroll.Denied:
		a.problem = &model.Problem{Reason: model.RequestDenied, Message: fmt.Sprintf(
			"spec.request is denied (%s): %s. No certificate is issued for it. Create an EtcdAccess with another request.", outcome.Cause, excerpt.Of(outcome.Detail, excerpt.Foreign))}
	}
	return nil
}

func (a *accessPass) owner() enroll.Owner {
	return enroll.Owner{UID: string(a.access.UID), Namespace: a.access.Namespace}
}

// remedyOf is what ends the wait of an application for its certificate.
func remedyOf(cause enroll.Cause) string {
	switch cause {
	case enroll.LedgerFull:
		return "Delete EtcdAccesses that are not needed."
	case enroll.RateLimited:
		return "Find what deletes or changes the Secret."
	default:
		return "See the conditions of the EtcdCluster."
	}
}

func (a *accessPass) issue(ctx context.Context, signed enroll.Signed, key []byte) error {
	holder := enroll.Holder{PodUID: string(a.access.UID), Plane: contract.ClientPlane}
	a.ledger.issued.RecordAccess(signed.Leaf, a.authorities.cas[contract.ClientPlane].Certificate(), holder, a.access.Namespace, a.now)
	if err := a.writeLedger(ctx); err != nil {
		return err
	}
	if err := a.checkSigner(ctx); err != nil {
		return err
	}
	if err := a.writeAccess(ctx, signed.Answer, key); err != nil {
		return err
	}
	a.wakeAt(signed.RenewalAt)
	a.options.Metrics.issued()
	a.options.Log.Info("issued a certificate", "namespace", a.access.Namespace, "etcdaccess", a.access.Name,
		"serial", signed.Leaf.SerialNumber.Text(16), "reason", signed.Why)
	a.options.Events.Eventf(a.access, nil, corev1.EventTypeNormal, "CertificateIssued", actionGrant,
		"Issued a certificate by %s: %s", signed.Leaf.Issuer.CommonName, signed.Why)
	return nil
}

// reportAccess applies the status, and writes an event about news of Ready.
func (a *accessPass) reportAccess(ctx context.Context) error {
	before, wanted := a.access.Status, model.AccessStatus(a.access, a.leaf, a.problem, a.now)
	if isWritten, err := a.statuses.Apply(ctx, a.access, &before, &wanted); err != nil || !isWritten {
		return err
	}
	news := operate.News(before.Conditions, wanted.Conditions, keyturnv1alpha1.ConditionReady)
	a.events(actionGrant).Announce(a.access, news, string(model.CANotReady))
	return nil
}
