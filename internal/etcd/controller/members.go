package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/imagepull"
	"github.com/keyturn/keyturn/internal/kube"
)

// changeMembers does the next act that brings the cluster to its spec, and returns what failed. What takes a member away
// from the others is decided on what is read past the cache.
func (p *pass) changeMembers(ctx context.Context) []error {
	connection := &connection{pass: p}
	defer connection.close()
	observed, failed := p.observe(), []error(nil)
	p.members = observed.Restarted()
	observed.Members = p.members
	decision := membership.Decide(observed)
	if _, asks := decision.Act.(membership.Ask); asks {
		var err error
		if observed, failed, err = p.ask(ctx, connection); err != nil {
			return []error{err}
		}
		decision = membership.Decide(observed)
	}
	for err := p.do(ctx, decision.Act, connection); err != nil; err = p.do(ctx, decision.Act, connection) {
		failed = append(failed, err)
		others, isOther := observed.Blocking(decision.Act)
		if !isOther || mayHaveRestarted(decision.Act, err) {
			break
		}
		observed, decision = others, membership.Decide(others)
	}
	p.noteDecision(decision)
	return failed
}

// noteDecision keeps what is in the way, and when etcd is asked again.
func (p *pass) noteDecision(decision membership.Decision) {
	if obstacle := decision.Obstacle; obstacle != nil && p.problem == nil {
		p.problem = &model.Problem{Reason: model.Reason(obstacle.Reason), Message: obstacle.Message}
	}
	if p.problem == nil {
		p.problem = p.findings.Refused
	}
	if decision.Again {
		p.wakeAt(p.now.Add(p.pause(decision)))
	}
}

// longestPause is how long etcd is left in peace at most that does not answer.
const longestPause = 15 * time.Second

// pause is how soon etcd is asked again. One that does not answer is asked less and less often: each question takes seconds
// in which others wait.
func (p *pass) pause(decision membership.Decision) time.Duration {
	if decision.Obstacle == nil || decision.Obstacle.Reason != membership.EtcdNotAnswering {
		return again
	}
	return min(model.Again(p.etcd.Status.Conditions, again, p.now), longestPause)
}

func (p *pass) do(ctx context.Context, act membership.Act, connection *connection) error {
	switch act := act.(type) {
	case membership.CreatePod:
		return p.createPod(ctx, act)
	case membership.Adopt:
		p.tellSkipped(act.Member.Name)
		p.members = membership.Adopted(p.members, act.Member)
		p.wakeAt(p.now.Add(again))
	case membership.DeletePod:
		return kube.Delete(ctx, p.options.Client, p.pods[act.Name])
	case membership.DeleteClaim:
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name, claim.UID = p.etcd.Namespace, p.cluster.Names.Claim(act.Name), types.UID(act.UID)
		return kube.Delete(ctx, p.options.Client, claim)
	case membership.Restart:
		return p.restart(ctx, act)
	case membership.SetMembers:
		p.wakeAt(p.now.Add(again))
		return p.setStart(ctx, act.Name, model.Start{Members: act.Members})
	case membership.Forget:
		p.members = membership.Forgotten(p.members, act.Name)
		p.wakeAt(p.now.Add(again))
	case membership.SetRestarting:
		p.members = membership.WithRestarting(p.members, act)
		p.wakeAt(p.now.Add(again))
	case membership.SetLeaving:
		p.members = membership.WithLeaving(p.members, act.Name, act.Leaving)
		p.wakeAt(p.now.Add(again))
	case membership.AddLearner, membership.Promote, membership.MoveLeader, membership.Remove:
		p.wakeAt(p.now.Add(again))
		p.refused(connection.change(ctx, act))
	}
	return nil
}

// refused reports that etcd did not take a change, which is tried again soon, unless that passes by itself.
func (p *pass) refused(err error) {
	if err == nil || errors.Is(err, admin.ErrNotReady) {
		return
	}
	p.options.Log.Info("etcd refuses a change", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "error", err.Error())
	p.problem = &model.Problem{Reason: model.Reason(membership.EtcdNotAnswering), Message: fmt.Sprintf(
		"etcd does not change its members, and the operator asks again: %s. See the logs of the members if that lasts.", excerpt.Of(err.Error(), excerpt.Foreign))}
}

func (p *pass) observe() membership.Observed {
	o := membership.Observed{
		Size: p.cluster.Size, Version: p.cluster.Version, Now: p.now, Paused: p.cluster.Paused, Members: p.members,
		Ephemeral: p.cluster.Ephemeral(), Pods: map[string]membership.Pod{}, Names: p.memberNames(), WithoutIdentity: p.cluster.Names.Mode != model.Dynamic,
		WasReady: wasReady(p.etcd), HadMembers: p.ledger.issued.HasMembers(),
	}
	if health := p.looks.health(p.cluster.Names.NamespacedName()); health != nil {
		o.Known = health.Known
	}
	due, hasLoaded := p.restartsDue()
	for name, pod := range p.pods {
		start, _ := contract.ParseStart(pod.Annotations[contract.StartAnnotation]) // what cannot be read is written again
		o.Pods[name] = membership.Pod{
			UID: string(pod.UID), IsOwned: p.cluster.IsOwned(pod), IsLeft: p.mayAdopt(pod), IsVoter: pod.Labels[model.RoleLabel] == string(etcdv1beta2.RoleVoter), Unlike: p.unlikePod(pod), IsEphemeral: model.IsEphemeral(pod), MayRun: p.mayRun(pod), IsStale: p.isStale(pod),
			HasOldSpec: p.cluster.HasOldSpec(pod), AwaitsMount: p.awaitsMount(pod), IsDown: isDown(pod),
			IsReady: isReady(pod), IsEnding: !pod.DeletionTimestamp.IsZero(), HasEnded: hasEnded(pod), IsEmptied: isEmptied(pod),
			HasJoined: start.HasJoined, Members: start.Names(), Version: pod.Annotations[model.VersionAnnotation],
			Due: due[name], HasLoaded: hasLoaded[name], AskedRevision: p.askedRevision(pod), IsSilent: p.isSilent(pod), IsOverdue: p.isOverdue(pod, due[name]),
		}
	}
	for _, member := range p.members {
		if pod := p.pods[member.Name]; pod != nil && imagepull.Awaits(pod) {
			o.Unpulled = append(o.Unpulled, membership.Silent{Name: member.Name, Cause: imagepull.Cause(pod)})
		}
	}
	return o
}

// wasReady reports whether nothing about members was reported to be in the way of the present spec.
func wasReady(etcd *etcdv1beta2.EtcdCluster) bool {
	ready := apimeta.FindStatusCondition(etcd.Status.Conditions, etcdv1beta2.ConditionReady)
	return ready != nil && ready.ObservedGeneration == etcd.Generation && !membership.Reason(ready.Reason).IsKnown()
}

// ask observes the cluster past the cache, and asks etcd. What is in the way of members is returned apart: they are left
// as they are.
func (p *pass) ask(ctx context.Context, connection *connection) (membership.Observed, []error, error) {
	if err := p.readPods(ctx, p.options.Live); err != nil {
		return membership.Observed{}, nil, err
	}
	unlisted, err := p.readUnlisted(ctx)
	if err != nil {
		return membership.Observed{}, nil, err
	}
	list := connection.list(ctx)
	claims, foreign, err := p.readClaims(ctx, list)
	if err != nil {
		return membership.Observed{}, nil, err
	}
	maps.Copy(foreign, unlisted)
	p.members = membership.Record(p.members, list)
	o := p.observe()
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		o.Blocked = append(o.Blocked, name)
		failed = append(failed, foreign[name])
	}
	o.Asked, o.Claims, o.List, o.Heard, o.Alarms = true, claims, list, connection.heard, connection.alarms
	o.Silence, o.Unresolved = connection.silence, p.unresolved(ctx)
	p.keepRunning(ctx, o, connection)
	return o, failed, nil
}

// keepRunning takes pods for running in which etcd answers, whatever is written in their status. The first one that
// has ended is replaced, and those after it are asked then.
func (p *pass) keepRunning(ctx context.Context, o membership.Observed, connection *connection) {
	for _, member := range o.Members {
		pod, exists := o.Pods[member.Name]
		switch {
		case !exists || !pod.HasEnded && !pod.IsEmptied || pod.IsEnding:
			continue
		case !connection.reaches(ctx, member):
			return
		}
		pod.HasEnded, pod.IsEmptied = false, false
		o.Pods[member.Name] = pod
		p.wakeAt(p.now.Add(kube.Unwatched))
	}
}

// claimants are the names of members that may have claims: those that are recorded or that etcd has, and all there can
// be while etcd does not answer or no id is recorded.
func (p *pass) claimants(list []membership.Listed) []string {
	var names []string
	for _, member := range p.members {
		names = append(names, member.Name)
	}
	for _, listed := range list {
		names = append(names, listed.Name)
	}
	if list == nil || !slices.ContainsFunc(p.members, func(m membership.Member) bool { return m.ID != "" }) {
		names = p.memberNames()
	}
	return names
}

func (p *pass) memberNames() []string {
	names := make([]string, 0, model.MaxMembers)
	for ordinal := range model.MaxMembers {
		names = append(names, p.cluster.Names.Member(ordinal))
	}
	return names
}

// readClaims reads the claims of members without a ready pod, and finds those in the way of members that are not the
// cluster's.
func (p *pass) readClaims(ctx context.Context, list []membership.Listed) (claims map[string]membership.Claim, foreign map[string]error, err error) {
	found, foreign := map[string]*corev1.PersistentVolumeClaim{}, map[string]error{}
	if p.cluster.Ephemeral() && len(p.members) > 0 {
		return nil, foreign, nil
	}
	for _, name := range p.claimants(list) {
		if pod := p.pods[name]; pod != nil && isReady(pod) {
			continue
		}
		claim, err := p.findClaim(ctx, name)
		switch _, isForeign := errors.AsType[*foreignObjectError](err); {
		case isForeign && p.isInTheWay(name, claim, list):
			foreign[name] = err
		case isForeign:
		case err != nil:
			return nil, nil, err
		case claim != nil:
			found[name] = claim
		}
	}
	claims, err = p.takeOver(ctx, found)
	return claims, foreign, err
}

// takeOver takes over the claims that an earlier cluster has left, if members of this spec can work with all of them.
func (p *pass) takeOver(ctx context.Context, found map[string]*corev1.PersistentVolumeClaim) (map[string]membership.Claim, error) {
	claims, isUnlike := map[string]membership.Claim{}, false
	for name, claim := range found {
		claims[name] = p.seenClaim(name, claim)
		isUnlike = isUnlike || claims[name].Unlike != ""
	}
	for _, claim := range found {
		if isUnlike || !p.cluster.IsOrphan(claim) {
			continue
		}
		if err := p.own(ctx, claim); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

func (p *pass) seenClaim(member string, claim *corev1.PersistentVolumeClaim) membership.Claim {
	seen := membership.Claim{
		UID: string(claim.UID), IsEnding: !claim.DeletionTimestamp.IsZero(), IsLost: claim.Status.Phase == corev1.ClaimLost, HasJoined: hasJoined(claim),
	}
	if p.cluster.IsOrphan(claim) {
		seen.Unlike = p.cluster.UnlikeClaim(member, claim)
	}
	return seen
}

func hasJoined(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[model.JoinedAnnotation] != ""
}

// isInTheWay reports whether a claim that is not the cluster's has the name of that of a member that there is, or the data
// of one.
func (p *pass) isInTheWay(member string, claim *corev1.PersistentVolumeClaim, list []membership.Listed) bool {
	return p.isNamed(member) || hasJoined(claim) || slices.ContainsFunc(list, func(l membership.Listed) bool { return l.Name == member })
}

// claim reads the claim of a member past the cache, and takes it over if an earlier cluster has left it; nil when the cluster has none.
func (p *pass) claim(ctx context.Context, member string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := p.findClaim(ctx, member)
	switch {
	case err != nil:
		return nil, err
	case claim != nil && p.cluster.IsOrphan(claim):
		return claim, p.own(ctx, claim)
	default:
		return claim, nil
	}
}

// findClaim reads the claim of a member past the cache; nil when there is none. One that is not the cluster's is returned with
// an error.
func (p *pass) findClaim(ctx context.Context, member string) (*corev1.PersistentVolumeClaim, error) {
	claim, key := &corev1.PersistentVolumeClaim{}, p.inNamespace(p.cluster.Names.Claim(member))
	err := p.options.Live.Get(ctx, key, claim)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", key, err)
	case !p.cluster.IsOwned(claim) && !p.cluster.IsOrphan(claim):
		return claim, &foreignObjectError{"PersistentVolumeClaim", key.Name}
	default:
		return claim, nil
	}
}

func (p *pass) inNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.etcd.Namespace, Name: name}
}

// createPod creates the pod of a member after everything that it mounts, and records it.
func (p *pass) createPod(ctx context.Context, act membership.CreatePod) error {
	restore, err := p.restoreFile(ctx, act)
	if err != nil {
		return err
	}
	if err := p.createClaim(ctx, act); err != nil {
		return err
	}
	trust, err := p.prepare(ctx, act.Name)
	if err != nil {
		return err
	}
	pod, err := p.cluster.Pod(act.Name, model.Start{Version: act.Version, HasJoined: act.HasJoined, IsFirst: act.IsFirst, Members: act.Members}, trust)
	if err != nil {
		return err
	}
	if restore != nil {
		p.cluster.AddRestore(pod, *restore)
	}
	p.stamp(pod)
	if err := p.create(ctx, "Pod", pod); err != nil {
		return err
	}
	if act.HasJoined {
		p.tellSkipped(act.Name)
	}
	p.members = membership.Created(p.members, act, string(pod.UID))
	p.pods[pod.Name] = pod
	return nil
}

// createClaim creates the claim of a member that has no data yet. One that has data gets no other claim: it must not
// start with an empty volume.
func (p *pass) createClaim(ctx context.Context, act membership.CreatePod) error {
	if p.cluster.Ephemeral() {
		return nil
	}
	claim, err := p.claim(ctx, act.Name)
	switch {
	case err != nil:
		return err
	case claim != nil && !claim.DeletionTimestamp.IsZero():
		return fmt.Errorf("creating pod %s: %w", act.Name, errClaimEnding)
	case claim != nil:
		return nil
	case act.HasJoined:
		return fmt.Errorf("creating pod %s: %w", act.Name, errNoClaim)
	default:
		return p.create(ctx, "PersistentVolumeClaim", p.cluster.Claim(act.Name))
	}
}

// What keeps a pod from being created. Another reconcile decides on what there is then.
var (
	errClaimEnding = errors.New("its claim is being deleted")
	errNoClaim     = errors.New("its claim is gone")
	// errOwned is an object of the cluster that exists although the cache has not shown it yet.
	errOwned = errors.New("it exists already")
)

// create creates an object of the cluster and never changes one that exists.
func (p *pass) create(ctx context.Context, kind string, object client.Object) error {
	name := object.GetName()
	stored, err := readMetadata(ctx, p.options.Live, corev1.SchemeGroupVersion.WithKind(kind), p.inNamespace(name))
	switch {
	case err != nil:
		return err
	case stored != nil && !p.cluster.IsOwned(stored):
		return &foreignObjectError{kind, name}
	case stored != nil && stored.Labels[model.ManagedByLabel] != model.Manager:
		return &unlabelledError{Kind: kind, Name: name}
	case stored != nil:
		return fmt.Errorf("creating %s %s: %w", kind, name, errOwned)
	}
	if err := p.options.Client.Create(ctx, object, client.FieldOwner(fieldOwner)); err != nil {
		return &createError{kind, name, err}
	}
	return nil
}
