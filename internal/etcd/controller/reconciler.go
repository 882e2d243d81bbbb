package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/operate"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/reports"
)

const (
	// fieldOwner owns what this controller applies, podOwner what it changes of pods that it has created, startOwner
	// how etcd starts in them, restartOwner when it is started again, and noteOwner what they were given.
	fieldOwner   = model.Manager
	podOwner     = model.Manager + "-pods"
	startOwner   = model.Manager + "-starts"
	restartOwner = model.Manager + "-restarts"
	noteOwner    = model.Manager + "-notes"
	// finalizer keeps an EtcdCluster until its CAs are deleted, after its last pod.
	finalizer = "keyturn.dev/etcd-cas"
	// again is how soon etcd is asked again about what no event tells: a learner that catches up, a server
	// that starts.
	again = time.Second
)

// Options are what a Reconciler works with.
type Options struct {
	// Client reads from the cache and writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Log    logr.Logger
	Clock  clock.Clock
	// Ahead tells how much Clock is ahead of the API server's; nil when that is unknown.
	Ahead kube.ClockGate
	// Dial connects to clusters.
	Dial admin.Dial
	// Agents returns a client of the agents of members.
	Agents func(mtls.Credentials) AgentClient
	// Network tells why members do not answer; nil when that is not asked.
	Network admin.Network
	// Namespace is the operator's own, where CAs are.
	Namespace string
	// Watched are the namespaces that are watched; none means all.
	Watched []string
	// ReadsPKI is true where the operator has the rights to the EtcdPKI. Otherwise it signs its CAs itself.
	ReadsPKI bool
	// GrantsAccess is true where the operator has the rights to EtcdAccesses. Otherwise nothing is done for them.
	GrantsAccess bool
	Settings     model.Settings
	Metrics      *Metrics
	// Watches knows which of the watches are denied; nil where nothing is watched.
	Watches *watches.Observer
	// Attestor tests the admission policy for pods of members.
	Attestor Attestor
}

// Reconciler reconciles EtcdClusters.
type Reconciler struct {
	options  Options
	statuses *operate.Statuses
	// clusters and backups are what is remembered of EtcdClusters and EtcdBackups.
	clusters, backups known
	// accessed watches the Secrets that EtcdAccesses depend on.
	accessed *kube.Named
	// makingCA is held while a CA of the operator is read or made.
	makingCA sync.Mutex
	// changed has clusters reconciled of which something else is known than their status says.
	changed operate.Bell
	looks   *looks
	poller  *reports.Poller[publication.Report]
	// records remembers what was recorded of the CAs of clusters.
	records *records.Store
}

// New returns a Reconciler. SetupWithManager starts it.
func New(options Options) *Reconciler {
	r := &Reconciler{
		options:  options,
		statuses: operate.NewStatuses(options.Client, fieldOwner),
		accessed: kube.NewNamed(corev1.SchemeGroupVersion.WithResource("secrets")),
		looks:    newLooks(options.Metrics),
		records:  records.NewStore(),
	}
	r.poller = reports.New[publication.Report](options.Clock)
	return r
}

// pass is one reconcile of one cluster.
type pass struct {
	*Reconciler

	// memory is that of the resource that is reconciled, nil for an EtcdAccess.
	memory   *memory
	etcd     *etcdv1beta2.EtcdCluster
	cluster  model.Cluster
	findings model.Findings
	now      time.Time
	// authorities are the CAs and the operator's own certificate.
	authorities authorities
	ledger      ledger
	// clients are what applications and backups are called in the ledger, by their UIDs.
	clients map[string]string
	// secrets are those of members, as they were read, by member. coming are members that have no pod yet.
	secrets map[string]*corev1.Secret
	coming  []string
	// place is the UID of the namespace of the cluster, empty until it is read.
	place       types.UID
	attestation attestation.Verdict
	pods        map[string]*corev1.Pod
	members     []membership.Member
	// claims are those of members, by member, as the cache has them; volumes is how they differ from the spec.
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes []model.Volume
	problem *model.Problem
	// restored is what the first member reports to have restored.
	restored *etcdv1beta2.RestoredStatus
	// wake is when the next reconcile is due although nothing changes; zero when never.
	wake time.Time
	// isRecalled is true while nothing is known of the CAs but what the operator before this one has recorded.
	isRecalled bool
	// unrecalled is why what was recorded last could not be read. What members trust does not wait for it.
	unrecalled error
	// conditions are those of an EtcdAccess or an EtcdBackup, as they were reported last.
	conditions []metav1.Condition
}

// Reconcile observes a cluster, does what is due next, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// An older one would not have the pods that were created last, which would then be taken for others'.
	etcd := &etcdv1beta2.EtcdCluster{}
	if err := r.options.Live.Get(ctx, request.NamespacedName, etcd); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading EtcdCluster %s: %w", request, err)
		}
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	p := &pass{Reconciler: r, memory: r.recall(&r.clusters, etcd), etcd: etcd, now: r.options.Clock.Now(), members: recorded(etcd.Status)}
	p.place = p.memory.place
	p.cluster, p.findings = model.Resolve(etcd, r.options.Settings)
	if !etcd.DeletionTimestamp.IsZero() {
		r.endLooks(request.NamespacedName)
		return ctrl.Result{}, p.remove(ctx)
	}
	if ahead, isWrong := r.options.Ahead.Difference(); isWrong && p.cluster.Names.Mode != model.Insecure {
		status := etcd.Status.DeepCopy()
		return r.reportClock(ctx, stopped{etcd, &etcd.Status, status, &status.Conditions}, ahead)
	}
	if err := p.run(ctx); err != nil {
		return ctrl.Result{}, kube.IgnoreEnding(err)
	}
	if p.wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(p.wake.Sub(p.now), again)}, nil
}

// forget drops everything that is remembered of a cluster that is gone.
func (r *Reconciler) forget(cluster types.NamespacedName) {
	r.endLooks(cluster)
	r.drop(&r.clusters, cluster)
	r.statuses.Forget(etcdv1beta2.KindEtcdCluster, cluster)
	r.options.Metrics.forget(cluster)
}

// endLooks ends what is done in the background for a cluster.
func (r *Reconciler) endLooks(cluster types.NamespacedName) {
	r.looks.forget(cluster)
	r.poller.Forget(cluster)
}

// run brings the cluster one step further. What is in the way of that is reported. A spec that cannot be acted on
// stops nothing that runs: members get their certificates as before.
func (p *pass) run(ctx context.Context) error {
	if err := errors.Join(p.readPods(ctx, p.options.Client), p.readVolumes(ctx)); err != nil {
		return err
	}
	p.problem = p.findings.Problem
	var failed []error
	if p.problem == nil || len(p.members) > 0 {
		failed = p.carryOut(ctx)
		if err := p.recordCAs(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	p.observeRestore()
	return p.finish(ctx, append(failed, p.expandVolumes(ctx)...))
}

// carryOut does what is due, and returns what failed. Certificates come first: what members wait for must not wait for
// anything else. What fails for one member keeps no other from what is due for it.
func (p *pass) carryOut(ctx context.Context) []error {
	if err := p.keepFinalizer(ctx); err != nil {
		return []error{err}
	}
	for _, read := range p.identities() {
		problem, err := read(ctx)
		switch {
		case err != nil:
			return []error{err}
		case problem != nil:
			p.problem = problem
			return p.renew(ctx)
		}
	}
	p.offerLooks()
	p.trackAgents()
	p.attest(ctx)
	failed := p.enroll(ctx)
	shared := p.applyShared(ctx)
	failed = slices.Concat(failed, shared, p.applyAccounts(ctx))
	if p.findings.Problem == nil && len(shared) == 0 {
		failed = append(failed, p.changeMembers(ctx)...)
	}
	return append(failed, p.recordStarts(ctx)...)
}

// identities read, each after the other, what is presented and trusted in the cluster.
func (p *pass) identities() []func(context.Context) (*model.Problem, error) {
	switch p.cluster.Names.Mode {
	case model.Static:
		return []func(context.Context) (*model.Problem, error){p.readStatic}
	case model.Insecure:
		return nil
	default:
		return []func(context.Context) (*model.Problem, error){p.readLedger, p.readAuthorities}
	}
}

// wakeAt keeps the earliest time that is still to come.
func (p *pass) wakeAt(at time.Time) {
	if at.After(p.now) && (p.wake.IsZero() || at.Before(p.wake)) {
		p.wake = at
	}
}

// lookAgain has an EtcdAccess or an EtcdBackup looked at again that waits for what no event tells of.
func (p *pass) lookAgain() { p.wakeAt(p.now.Add(model.Again(p.conditions, kube.Unwatched, p.now))) }

// recorded are the members as the status has them.
func recorded(status etcdv1beta2.EtcdClusterStatus) []membership.Member {
	members := make([]membership.Member, 0, len(status.MemberStatuses))
	for _, m := range status.MemberStatuses {
		restarting := cmp.Or(m.RestartingSince, &metav1.Time{})
		members = append(members, membership.Member{
			Name: m.Name, PodUID: string(m.PodUID), ID: m.MemberID, IsVoter: m.Role == etcdv1beta2.RoleVoter,
			IsLeaving: m.Leaving, Version: cmp.Or(m.Version, status.CurrentVersion), RestartingSince: restarting.Time,
		})
	}
	return members
}
