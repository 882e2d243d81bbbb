package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// hexadecimal is how ids of members are written.
const hexadecimal = 16

// connection is one to each member that is ready, made when it is needed first. Members are asked at the addresses of
// their pods: a cluster without DNS is repaired, too. Their certificates have their names, whatever the address.
type connection struct {
	*pass

	clients map[string]admin.Client
	// heard are the names of those that have answered who the members are.
	heard []string
	// changes names the member that is asked to change members: one that has answered, or the leader.
	changes string
	// hasAlarm is true when a member has told of an alarm, and alarms are those that etcd has then.
	hasAlarm bool
	alarms   []membership.Alarm
	// silence is why each member that is asked gives no answer, when none does.
	silence []membership.Silent
}

var errNoMember = errors.New("no member is ready")

func (c *connection) open(ctx context.Context) error {
	if c.clients != nil {
		return nil
	}
	c.clients = map[string]admin.Client{}
	for _, member := range c.serving() {
		if !c.hasReadyPod(member) && !c.isStarting(member) {
			continue
		}
		client, err := c.options.Dial(ctx, []string{c.addressOf(member.Name)}, c.identityOf(member.Name))
		if err != nil {
			return err
		}
		c.clients[member.Name] = client
	}
	if len(c.clients) == 0 {
		return errNoMember
	}
	return nil
}

// addressOf is the client URL of a member by the address of its pod.
func (p *pass) addressOf(member string) string {
	ips := p.pods[member].Status.PodIPs
	if len(ips) == 0 { // it is not in DNS either
		return p.cluster.Names.ClientURL(member)
	}
	return p.cluster.Names.ClientURLAt(ips[0].IP)
}

// identityOf is how the operator connects to a member, nil without TLS.
func (p *pass) identityOf(member string) *tls.Config {
	identity := p.identity()
	if identity != nil {
		identity.ServerName = p.cluster.Names.Host(member)
	}
	return identity
}

func (c *connection) hasReadyPod(member membership.Member) bool {
	pod := c.pods[member.Name]
	return pod != nil && isReady(pod) && string(pod.UID) == member.PodUID
}

// isStarting reports whether etcd may have begun to run in the first member of a cluster, whose pod is ready after etcd
// has told so.
func (c *connection) isStarting(member membership.Member) bool {
	pod := c.pods[member.Name]
	return len(c.members) == 1 && member.ID == "" && pod != nil && string(pod.UID) == member.PodUID && c.mayRun(pod)
}

// list asks etcd for its members and how they fare; nil when it does not answer, which is logged.
func (c *connection) list(ctx context.Context) []membership.Listed {
	if err := c.open(ctx); err != nil {
		c.options.Log.Info("cannot connect to etcd", "namespace", c.etcd.Namespace, "etcdcluster", c.etcd.Name, "error", err.Error())
		return nil
	}
	members, err := c.agreed(ctx)
	if errors.Is(err, errDisagree) {
		c.problem = &model.Problem{Reason: model.Reason(membership.MembersDisagree), Message: "Members answer differently who the members of etcd are. " +
			"Members are neither added nor removed, and nothing is deleted. Compare what etcdctl member list prints for each member."}
	}
	if err != nil {
		c.options.Log.Info("etcd does not answer", "namespace", c.etcd.Namespace, "etcdcluster", c.etcd.Name, "error", err.Error())
		c.diagnose(ctx)
		return nil
	}
	listed := make([]membership.Listed, 0, len(members))
	for _, member := range members {
		each := membership.Listed{ID: strconv.FormatUint(member.ID, hexadecimal), Name: c.memberAt(member.PeerURLs), IsLearner: member.IsLearner, HasStarted: member.Name != ""}
		if i := slices.IndexFunc(c.members, func(m membership.Member) bool { return m.ID == each.ID }); i >= 0 {
			each.Name = c.members[i].Name
			if own := c.cluster.Names.PeerURL(each.Name); !slices.Equal(member.PeerURLs, []string{own}) {
				each.OwnURL = own
			}
		}
		listed = append(listed, c.withStatus(ctx, each, member.ID))
	}
	if !c.hasAlarm {
		return listed
	}
	alarms, err := c.clients[c.changes].Alarms(ctx)
	if err != nil {
		c.options.Log.Info("etcd does not list its alarms", "namespace", c.etcd.Namespace, "etcdcluster", c.etcd.Name, "error", err.Error())
		return nil
	}
	c.alarms = named(alarms, members, nil)
	return listed
}

// withStatus adds what the member itself answers. Only a pod that is ready is asked.
func (c *connection) withStatus(ctx context.Context, listed membership.Listed, id uint64) membership.Listed {
	serving := c.serving()
	i := slices.IndexFunc(serving, func(m membership.Member) bool { return m.Name == listed.Name })
	if i < 0 || !c.hasReadyPod(serving[i]) {
		return listed
	}
	status, err := c.clients[listed.Name].Status(ctx, c.addressOf(listed.Name))
	if err != nil || status.ID != id || status.Leader == 0 {
		c.options.Log.Info("a member does not answer", "namespace", c.etcd.Namespace, "member", listed.Name, "status", fmt.Sprintf("%+v %v", status, err))
		return listed
	}
	listed.Answers, listed.IsLeader, c.hasAlarm = true, status.Leader == id, c.hasAlarm || status.HasAlarm
	listed.Received, listed.Applied = status.Received, status.Applied
	if listed.IsLeader {
		c.changes = listed.Name
	}
	return listed
}

// diagnose finds out why members that are ready give no answer.
func (c *connection) diagnose(ctx context.Context) {
	if c.options.Network == nil {
		return
	}
	names := slices.Sorted(maps.Keys(c.clients))
	c.silence = make([]membership.Silent, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		address, identity := c.addressOf(name), c.identityOf(name)
		asked.Go(func() {
			err := c.options.Network.Reach(ctx, address, identity)
			c.silence[i] = membership.Silent{Name: name, Cause: causeOf(err)}
			c.options.Log.Info("a member does not answer", "namespace", c.etcd.Namespace, "member", name, "cause", causeOf(err), "error", fmt.Sprint(err))
		})
	}
	asked.Wait()
}

// resolutionAfter is how long a pod may be unready before its name is looked up: an answer that a name does not exist is
// remembered by DNS servers, and would keep a pod that has just started from being found.
const resolutionAfter = 30 * time.Second

// unresolved are members that do not become ready and whose name is not in DNS, by which members find each other.
func (p *pass) unresolved(ctx context.Context) []membership.Silent {
	var unresolved []membership.Silent
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if p.options.Network == nil || pod == nil || isReady(pod) || !p.mayRun(pod) || hasEnded(pod) || !pod.DeletionTimestamp.IsZero() || len(pod.Status.PodIPs) == 0 {
			continue
		}
		if due := unreadySince(pod).Add(resolutionAfter); due.After(p.now) {
			p.wakeAt(due)
			continue
		}
		if err := p.options.Network.Resolve(ctx, p.cluster.Names.Host(member.Name)); err != nil {
			unresolved = append(unresolved, membership.Silent{Name: member.Name, Cause: causeOf(err)})
			p.wakeAt(p.now.Add(kube.Unwatched))
		}
	}
	return unresolved
}

func unreadySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// causeOf is why a member gives no answer, in words that stay the same while it does.
func causeOf(err error) string {
	for _, cause := range []error{admin.ErrNoConnection, admin.ErrUntrusted, admin.ErrRejected, admin.ErrNameNotFound, admin.ErrNoNameServer} {
		if errors.Is(err, cause) {
			return cause.Error()
		}
	}
	return "its pod accepts connections, and etcd does not answer. It may have no leader"
}

// reaches reports whether etcd answers as a member, at an address of its pod or at its name: the status of a
// pod that is said to have ended may name no address.
func (c *connection) reaches(ctx context.Context, member membership.Member) bool {
	hosts := make([]string, 0, 2)
	for _, ip := range c.pods[member.Name].Status.PodIPs {
		hosts = append(hosts, ip.IP)
	}
	return slices.ContainsFunc(append(hosts, c.cluster.Names.Host(member.Name)), func(host string) bool {
		id, err := c.idAt(ctx, c.cluster.Names.ClientURLAt(host), c.identityOf(member.Name))
		return err == nil && (member.ID == "" || member.ID == id)
	})
}

func (c *connection) idAt(ctx context.Context, url string, identity *tls.Config) (string, error) {
	member, err := c.options.Dial(ctx, []string{url}, identity)
	if err != nil {
		return "", err
	}
	status, err := member.Status(ctx, url)
	c.hangUp(member)
	return strconv.FormatUint(status.ID, hexadecimal), err
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

// change changes the members of etcd, or which of them leads.
func (c *connection) change(ctx context.Context, act membership.Act) error {
	asked := c.changes
	if move, is := act.(membership.MoveLeader); is {
		asked = move.From
	}
	client, isConnected := c.clients[asked]
	if !isConnected {
		return errNoMember
	}
	switch act := act.(type) {
	case membership.AddLearner:
		return client.AddLearner(ctx, c.cluster.Names.PeerURL(act.Name))
	case membership.Promote:
		return c.with(act.ID, func(id uint64) error { return client.Promote(ctx, id) })
	case membership.Remove:
		return c.with(act.ID, func(id uint64) error { return client.Remove(ctx, id) })
	case membership.MoveLeader:
		return c.with(act.ToID, func(id uint64) error { return client.MoveLeader(ctx, c.addressOf(act.From), id) })
	default:
		return fmt.Errorf("changing members: act %T is not known", act)
	}
}

func (c *connection) with(id string, do func(uint64) error) error {
	number, err := strconv.ParseUint(id, hexadecimal, 64)
	if err != nil {
		return fmt.Errorf("reading the id of member %s: %w", id, err)
	}
	return do(number)
}

func (c *connection) close() {
	for _, client := range c.clients {
		c.hangUp(client)
	}
}

func (c *connection) hangUp(client admin.Client) {
	if err := client.Close(); err != nil {
		c.options.Log.Info("closing a connection failed", "error", err.Error())
	}
}
