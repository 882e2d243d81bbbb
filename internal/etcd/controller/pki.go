package controller

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/pki"
)

const actionAsk = "RequestCertificates"

// pkiPass is one reconcile of the EtcdPKI.
type pkiPass struct {
	*Reconciler

	pki  *keyturnv1alpha1.EtcdPKI
	seen model.PKISeen
	// shortest is the shortest validity by plane of a CA that a cluster waits for.
	shortest map[contract.Plane]time.Duration
	now      time.Time
}

// ReconcilePKI publishes the requests for the operator's CAs, and stores what an outside PKI has answered.
func (r *Reconciler) ReconcilePKI(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	etcdPKI, err := r.readPKI(ctx)
	if err != nil || etcdPKI == nil || !etcdPKI.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	if _, isWrong := r.options.Ahead.Difference(); isWrong {
		return ctrl.Result{RequeueAfter: kube.ClockPause}, nil // clusters report it
	}
	p := &pkiPass{Reconciler: r, pki: etcdPKI, now: r.options.Clock.Now()}
	p.seen = model.PKISeen{PKI: etcdPKI, Now: p.now}
	if err := p.run(ctx); err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	return ctrl.Result{RequeueAfter: p.wait()}, nil
}

// readPKI reads the EtcdPKI past the cache; nil when there is none.
func (r *Reconciler) readPKI(ctx context.Context) (*keyturnv1alpha1.EtcdPKI, error) {
	found := &keyturnv1alpha1.EtcdPKI{}
	err := r.options.Live.Get(ctx, types.NamespacedName{Name: keyturnv1alpha1.EtcdPKIName}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading EtcdPKI %s: %w", keyturnv1alpha1.EtcdPKIName, err)
	default:
		return found, nil
	}
}

func (p *pkiPass) run(ctx context.Context) error {
	if p.pki.Spec.Mode != keyturnv1alpha1.Outside {
		return p.report(ctx)
	}
	if err := p.readValidities(ctx); err != nil {
		return err
	}
	p.seen.Requests, p.seen.CAs = map[contract.Plane][]byte{}, map[contract.Plane]model.Signed{}
	for _, plane := range contract.Planes() {
		own := model.OperatorCA{Namespace: p.options.Namespace, Plane: plane}
		if problem := own.BelongsToAnother(p.pki.Status); problem != nil {
			p.options.Log.Info("asking for no certificates", "problem", problem.Message)
			return nil
		}
		problem, err := p.ask(ctx, own)
		if err != nil {
			return err
		}
		if problem != nil {
			p.seen.Problem = problem
			break
		}
	}
	return p.report(ctx)
}

// ask publishes the request of a CA and stores its answer.
func (p *pkiPass) ask(ctx context.Context, own model.OperatorCA) (*model.Problem, error) {
	key, problem, err := p.ownKey(ctx, own)
	if err != nil || problem != nil {
		return problem, err
	}
	stored, err := p.ownSecret(ctx, own.CertSecret())
	if err != nil {
		return nil, err
	}
	object, err := p.signingRequest(ctx, own)
	if err != nil {
		return nil, err
	}
	request, err := own.Request(key, published(own, p.pki, object)...)
	if err != nil {
		return nil, fmt.Errorf("requesting a certificate of the operator's %s CA: %w", own.Plane, err)
	}
	signed := own.DecideSigned(model.Signing{
		Key: key, Stored: dataOf(stored)[authority.CertKey], Given: own.GivenIn(p.pki.Spec), Object: object,
		Shortest: p.shortest[own.Plane], Now: p.now,
	})
	if signed.IsNew {
		p.options.Log.Info("storing a certificate of the operator's CA", "plane", own.Plane, "notAfter", signed.Chain[0].NotAfter)
		err = p.writeOwn(ctx, stored, own.CertSecret(), own.Labels(), map[string][]byte{authority.CertKey: pki.EncodeBundle(signed.Chain...)})
	}
	if err == nil && signed.Publish {
		err = p.publish(ctx, own, request)
	}
	p.seen.Requests[own.Plane], p.seen.CAs[own.Plane] = request, signed
	return nil, err
}

func published(own model.OperatorCA, etcdPKI *keyturnv1alpha1.EtcdPKI, object *certificatesv1.CertificateSigningRequest) [][]byte {
	requests := [][]byte{[]byte(own.RequestIn(etcdPKI.Status))}
	if object != nil {
		requests = append(requests, object.Spec.Request)
	}
	return requests
}

// signingRequest reads the CertificateSigningRequest of a CA; nil when there is none.
func (p *pkiPass) signingRequest(ctx context.Context, own model.OperatorCA) (*certificatesv1.CertificateSigningRequest, error) {
	found := &certificatesv1.CertificateSigningRequest{}
	err := p.options.Live.Get(ctx, types.NamespacedName{Name: own.SigningRequest()}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading CertificateSigningRequest %s: %w", own.SigningRequest(), err)
	default:
		return found, nil
	}
}

func (p *pkiPass) publish(ctx context.Context, own model.OperatorCA, request []byte) error {
	object := own.SigningRequestOf(p.pki, request)
	if err := p.options.Client.Create(ctx, object, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("creating CertificateSigningRequest %s: %w", object.Name, err)
	}
	p.options.Log.Info("created a CertificateSigningRequest", "name", object.Name)
	return nil
}

// readValidities reads how long the CAs are to be valid that clusters wait for.
func (p *pkiPass) readValidities(ctx context.Context) error {
	var clusters etcdv1beta2.EtcdClusterList
	if err := p.options.Client.List(ctx, &clusters); err != nil {
		return fmt.Errorf("listing EtcdClusters: %w", err)
	}
	p.shortest = map[contract.Plane]time.Duration{}
	for i := range clusters.Items {
		etcd := &clusters.Items[i]
		if !etcd.DeletionTimestamp.IsZero() || hasCAs(etcd) {
			continue
		}
		cluster, _ := model.Resolve(etcd, p.options.Settings)
		for plane, validity := range cluster.TLS.CAValidity {
			if shortest, known := p.shortest[plane]; !known || validity < shortest {
				p.shortest[plane] = validity
			}
		}
	}
	return nil
}

// hasCAs reports whether a cluster has all its CAs. Members have been given theirs.
func hasCAs(etcd *etcdv1beta2.EtcdCluster) bool {
	return len(etcd.Status.MemberStatuses) > 0 || apimeta.IsStatusConditionTrue(etcd.Status.Conditions, etcdv1beta2.ConditionPKIReady)
}

// wait is how long nothing changes by time alone; zero when it never does. No event tells of a Secret that is restored.
func (p *pkiPass) wait() time.Duration {
	if p.seen.Problem != nil {
		return kube.Unwatched
	}
	var wait time.Duration
	for _, ca := range p.seen.CAs {
		if in := ca.Wake.Sub(p.now); in > 0 && (wait == 0 || in < wait) {
			wait = in
		}
	}
	return wait
}

// report applies the status, and writes an event about news of Ready.
func (p *pkiPass) report(ctx context.Context) error {
	before, wanted := p.pki.Status, model.PKIStatus(p.seen)
	if isWritten, err := p.statuses.Apply(ctx, p.pki, &before, &wanted); err != nil || !isWritten {
		return err
	}
	ready := &wanted.Conditions[0]
	last := apimeta.FindStatusCondition(before.Conditions, ready.Type)
	switch events := p.events(actionAsk); {
	case operate.News(before.Conditions, wanted.Conditions, ready.Type) == nil && last.Message == ready.Message:
	case ready.Status == metav1.ConditionTrue && len(p.seen.Remarks()) > 0:
		events.Write(p.pki, corev1.EventTypeWarning, ready)
	default:
		events.Announce(p.pki, ready, string(model.WaitingForSigner))
	}
	return nil
}
