package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
)

const hexadecimal = 16

// changeMembers does the next act that brings the cluster to its size.
func (p *pass) changeMembers(ctx context.Context) error {
	observed, err := p.observe(ctx)
	if err != nil {
		return err
	}
	decision := membership.Decide(observed)
	connection := &connection{pass: p}
	defer connection.close()
	if _, asks := decision.Act.(membership.Ask); asks {
		if observed.List = connection.list(ctx); observed.List != nil {
			p.members = membership.Record(p.members, observed.List)
			observed.Members = p.members
			decision = membership.Decide(observed)
		}
	}
	if obstacle := decision.Obstacle; obstacle != nil && p.problem == nil {
		p.problem = &model.Problem{Reason: model.Reason(obstacle.Reason), Message: obstacle.Message}
	}
	return p.do(ctx, decision.Act, connection)
}

func (p *pass) do(ctx context.Context, act membership.Act, connection *connection) error {
	switch act := act.(type) {
	case membership.CreatePod:
		return p.createPod(ctx, act)
	case membership.DeletePod:
		return kube.Delete(ctx, p.options.Client, p.pods[act.Name])
	case membership.AddLearner:
		p.wakeAt(p.now.Add(again))
		p.refused(connection.add(ctx, act.Name))
		return nil
	case membership.Promote:
		p.wakeAt(p.now.Add(again))
		p.refused(connection.promote(ctx, act.ID))
		return nil
	case membership.Ask:
		p.wakeAt(p.now.Add(again))
		return nil
	default:
		return nil
	}
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

func (p *pass) observe(ctx context.Context) (membership.Observed, error) {
	o := membership.Observed{
		Size: p.cluster.Size, Paused: p.cluster.Paused, Members: p.members, Ephemeral: p.cluster.Ephemeral(),
		Pods: map[string]membership.Pod{}, HasClaim: map[string]bool{},
	}
	for ordinal := range p.cluster.Size {
		o.Names = append(o.Names, p.cluster.Names.Member(ordinal))
	}
	for _, member := range p.members {
		if !slices.Contains(o.Names, member.Name) {
			o.Names = append(o.Names, member.Name)
		}
	}
	for name, pod := range p.pods {
		o.Pods[name] = membership.Pod{
			UID: string(pod.UID), IsOwned: p.cluster.IsOwned(pod), MayRun: hasAnswer(pod) || isReady(pod),
			IsReady: isReady(pod), IsEnding: !pod.DeletionTimestamp.IsZero(),
		}
	}
	for _, member := range p.members {
		if _, exists := o.Pods[member.Name]; exists || o.Ephemeral {
			continue
		}
		claim, err := p.metadataOf(ctx, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), p.inNamespace(p.cluster.Names.Claim(member.Name)))
		if err != nil {
			return membership.Observed{}, err
		}
		o.HasClaim[member.Name] = claim != nil && p.cluster.IsOwned(claim)
	}
	return o, nil
}

func (p *pass) inNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.etcd.Namespace, Name: name}
}

// createPod creates the pod of a member after everything that it mounts, and records it.
func (p *pass) createPod(ctx context.Context, act membership.CreatePod) error {
	published, err := p.prepare(ctx, act.Name)
	if err != nil {
		return err
	}
	pin, err := published.Encode()
	if err != nil {
		return fmt.Errorf("pinning pod %s: %w", act.Name, err)
	}
	if !p.cluster.Ephemeral() {
		if err := p.create(ctx, "PersistentVolumeClaim", p.cluster.Claim(act.Name)); err != nil && !errors.Is(err, errOwned) {
			return err
		}
	}
	pod := p.cluster.Pod(act.Name, model.Start{Existing: act.Existing, Members: act.Members}, string(pin))
	p.stamp(pod)
	if err := p.create(ctx, "Pod", pod); err != nil {
		return err
	}
	p.members = membership.Created(p.members, act.Name, string(pod.UID))
	p.pods[pod.Name] = pod
	return nil
}

// errOwned is an object of the cluster that exists although the cache has not shown it yet.
var errOwned = errors.New("it exists already")

// create creates an object of the cluster and never changes one that exists.
func (p *pass) create(ctx context.Context, kind string, object client.Object) error {
	name := object.GetName()
	stored, err := readMetadata(ctx, p.options.Live, corev1.SchemeGroupVersion.WithKind(kind), p.inNamespace(name))
	switch {
	case err != nil:
		return err
	case stored != nil && !p.cluster.IsOwned(stored):
		return &foreignObjectError{kind, name}
	case stored != nil:
		return fmt.Errorf("creating %s %s: %w", kind, name, errOwned)
	}
	if err := p.options.Client.Create(ctx, object, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("creating %s %s: %w", kind, name, err)
	}
	return nil
}

// connection is one to the members that are ready, made when it is needed first.
type connection struct {
	*pass

	client admin.Client
}

func (c *connection) open(ctx context.Context) error {
	if c.client != nil {
		return nil
	}
	var urls []string
	for _, member := range c.members {
		if pod := c.pods[member.Name]; pod != nil && isReady(pod) && string(pod.UID) == member.PodUID {
			urls = append(urls, c.cluster.Names.ClientURL(member.Name))
		}
	}
	if len(urls) == 0 {
		return errNoMember
	}
	var err error
	c.client, err = c.options.Dial(ctx, urls, c.authorities.client())
	return err
}

var errNoMember = errors.New("no member is ready")

// list asks etcd for its members; nil when it does not answer, which is logged.
func (c *connection) list(ctx context.Context) []membership.Listed {
	if err := c.open(ctx); err != nil {
		c.options.Log.Info("cannot connect to etcd", "namespace", c.etcd.Namespace, "etcdcluster", c.etcd.Name, "error", err.Error())
		return nil
	}
	members, err := c.client.Members(ctx)
	if err != nil {
		c.options.Log.Info("etcd does not answer", "namespace", c.etcd.Namespace, "etcdcluster", c.etcd.Name, "error", err.Error())
		return nil
	}
	listed := make([]membership.Listed, 0, len(members))
	for _, member := range members {
		listed = append(listed, membership.Listed{
			ID: strconv.FormatUint(member.ID, hexadecimal), Name: c.memberAt(member.PeerURLs),
			IsLearner: member.IsLearner, HasStarted: member.Name != "",
		})
	}
	return listed
}

// memberAt is the member of a peer URL, empty when it is none's.
func (c *connection) memberAt(urls []string) string {
	for ordinal := range model.MaxMembers {
		name := c.cluster.Names.Member(ordinal)
		if slices.Contains(urls, c.cluster.Names.PeerURL(name)) {
			return name
		}
	}
	return ""
}

func (c *connection) add(ctx context.Context, member string) error {
	return c.client.AddLearner(ctx, c.cluster.Names.PeerURL(member))
}

func (c *connection) promote(ctx context.Context, id string) error {
	number, err := strconv.ParseUint(id, hexadecimal, 64)
	if err != nil {
		return fmt.Errorf("reading the id of member %s: %w", id, err)
	}
	return c.client.Promote(ctx, number)
}

func (c *connection) close() {
	if c.client == nil {
		return
	}
	if err := c.client.Close(); err != nil {
		c.options.Log.Info("closing a connection failed", "error", err.Error())
	}
}
