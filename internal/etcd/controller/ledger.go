package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// ledger is what was issued, and the ConfigMap that has it; nil before the first certificate.
type ledger struct {
	stored *corev1.ConfigMap
	issued enroll.Ledger
}

// readLedger reads the ledger past the cache.
func (p *pass) readLedger(ctx context.Context) (*model.Problem, error) {
	name := p.cluster.Names.Ledger()
	stored, err := p.configMap(ctx, name)
	if err != nil {
		return nil, err
	}
	p.ledger = ledger{issued: enroll.Ledger{}}
	if stored != nil {
		if err := p.keepLedger(ctx, stored); err != nil {
			return nil, err
		}
		p.ledger.stored = stored
		if p.ledger.issued, err = enroll.ParseLedger(stored.Data); err != nil {
			return model.UnreadableLedger(p.options.Namespace, name, err), nil
		}
	}
	living, err := p.living(ctx)
	if err == nil {
		p.ledger.issued.Settle(living)
	}
	return nil, err
}

// living are the namespaces of all that has certificates of the cluster, by their UIDs, empty for members, and keeps what
// applications and backups are called. What the cache does not show yet only loses the dates of its certificates.
func (p *pass) living(ctx context.Context) (map[string]string, error) {
	living := map[string]string{}
	p.clients = map[string]string{}
	for _, member := range p.etcd.Status.MemberStatuses {
		living[string(member.PodUID)] = ""
	}
	var backups etcdv1beta2.EtcdBackupList
	if err := p.options.Client.List(ctx, &backups, client.InNamespace(p.etcd.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing EtcdBackups: %w", err)
	}
	for i := range backups.Items {
		living[string(backups.Items[i].Status.PodUID)] = p.etcd.Namespace
		p.clients[string(backups.Items[i].Status.PodUID)] = "EtcdBackup " + p.etcd.Namespace + "/" + backups.Items[i].Name
	}
	p.addUnseen(living)
	if !p.options.GrantsAccess {
		return living, nil
	}
	var accesses keyturnv1alpha1.EtcdAccessList
	if err := p.options.Client.List(ctx, &accesses, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing EtcdAccesses: %w", err)
	}
	for i := range accesses.Items {
		living[string(accesses.Items[i].UID)] = accesses.Items[i].Namespace
		p.clients[string(accesses.Items[i].UID)] = "EtcdAccess " + accesses.Items[i].Namespace + "/" + accesses.Items[i].Name
	}
	return living, nil
}

// addUnseen adds the EtcdAccesses of the ledger that the operator cannot see: what is not seen is not gone, and their certificates are in
// use until they expire.
func (p *pass) addUnseen(living map[string]string) {
	for _, issued := range p.ledger.issued {
		if issued.IsAccess && !p.seesAccesses(issued.Namespace) {
			living[issued.PodUID] = issued.Namespace
			p.clients[issued.PodUID] = "an EtcdAccess in namespace " + issued.Namespace
		}
	}
}

// seesAccesses reports whether the operator reads the EtcdAccesses of a namespace.
func (p *pass) seesAccesses(namespace string) bool {
	return p.options.GrantsAccess && (len(p.options.Watched) == 0 || slices.Contains(p.options.Watched, namespace))
}

// addPresented adds the certificates that pods of the cluster have and the ledger does not, because it was lost or they are older
// than it. They are written with the next one.
func (p *pass) addPresented() {
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		exchange := enroll.ExchangeOf(pod.Annotations)
		for _, plane := range contract.Planes() {
			chain, err := enroll.Chain(exchange.Answers[plane])
			holder := enroll.Holder{PodUID: string(pod.UID), Plane: plane}
			// Another process may have put the certificate of another member there.
			if err != nil || p.ledger.issued.HasLeaf(chain[0], holder) || !pki.HasSubject(chain[0], enroll.Subject(pod.Name)) {
				continue
			}
			anchors := p.anchors(plane)
			if i := slices.IndexFunc(anchors, func(ca *x509.Certificate) bool { return pki.IssuedBy(chain[0], ca) }); i >= 0 {
				p.ledger.issued.RecordUnattested(chain[0], anchors[i], holder, p.now)
			}
		}
	}
}

// anchors are the CA certificates of a plane in the Secrets of its CA.
func (p *pass) anchors(plane contract.Plane) []*x509.Certificate {
	anchors := authority.PublishedCAs(dataOf(p.authorities.secrets[p.cluster.Names.CACertSecret(plane)]))
	for _, anchor := range authority.StoredAnchors(p.storedCA(p.cluster.Names.TrustedCertsSecret(plane))) {
		anchors = append(anchors, anchor.Certificate)
	}
	return anchors
}

// recordExposed records keys whose private keys are seen, before that is reported and before they can be asked with.
func (p *pass) recordExposed(ctx context.Context, keys []pki.KeyID, by enroll.Owner) error {
	if !p.ledger.issued.Expose(keys, by, p.now) {
		return nil
	}
	return p.writeLedger(ctx)
}

// writeLedger writes the ledger, only from the state in which it was read.
func (p *pass) writeLedger(ctx context.Context) error {
	data, err := p.ledger.issued.Encode()
	if err != nil {
		return err
	}
	name := p.cluster.Names.Ledger()
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.options.Namespace, Name: name}, Data: data}
	if stored := p.ledger.stored; stored != nil {
		wanted = stored.DeepCopy()
		wanted.Data = data
		err = p.options.Client.Patch(ctx, wanted, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	} else {
		if wanted.Labels, err = p.privateLabels(ctx); err != nil {
			return err
		}
		err = p.options.Client.Create(ctx, wanted, client.FieldOwner(fieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", name, err)
	}
	p.ledger.stored = wanted
	return nil
}

// configMap reads a ConfigMap in the operator's namespace past the cache; nil when there is none.
func (r *Reconciler) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	stored := &corev1.ConfigMap{}
	err := r.options.Live.Get(ctx, types.NamespacedName{Namespace: r.options.Namespace, Name: name}, stored)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	default:
		return stored, nil
	}
}
