package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// hexadecimal is how ids of members are written.
const hexadecimal = 16

// connection is one to the members that are ready, made when it is needed first.
type connection struct {
	*pass

	client admin.Client
	// urls are those of the members that are asked, by their names.
	names, urls []string
	// heard are the names of those that have answered.
	heard []string
}

var errNoMember = errors.New("no member is ready")

func (c *connection) open(ctx context.Context) error {
	if c.client != nil {
		return nil
	}
	for _, member := range c.serving() {
		if c.hasReadyPod(member) || c.isStarting(member) {
			c.names = append(c.names, member.Name)
			c.urls = append(c.urls, c.cluster.Names.ClientURL(member.Name))
		}
	}
	if len(c.urls) == 0 {
		return errNoMember
	}
	var err error
	c.client, err = c.options.Dial(ctx, c.urls, c.identity())
	return err
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
		return nil
	}
	listed := make([]membership.Listed, 0, len(members))
	for _, member := range members {
		each := membership.Listed{
			ID: strconv.FormatUint(member.ID, hexadecimal), Name: c.memberAt(member.PeerURLs),
			IsLearner: member.IsLearner, HasStarted: member.Name != "",
		}
		listed = append(listed, c.withStatus(ctx, each, member.ID))
	}
	return listed
}

// withStatus adds what the member itself answers. Only a pod that is ready is asked.
func (c *connection) withStatus(ctx context.Context, listed membership.Listed, id uint64) membership.Listed {
	serving := c.serving()
	i := slices.IndexFunc(serving, func(m membership.Member) bool { return m.Name == listed.Name })
	if i < 0 || !c.hasReadyPod(serving[i]) {
		return listed
	}
	status, err := c.client.Status(ctx, c.cluster.Names.ClientURL(listed.Name))
	if err != nil || status.ID != id || status.Leader == 0 {
		c.options.Log.Info("a member does not answer", "namespace", c.etcd.Namespace, "member", listed.Name, "status", fmt.Sprintf("%+v %v", status, err))
		return listed
	}
	listed.Answers, listed.IsLeader, listed.HasAlarm = true, status.Leader == id, status.HasAlarm
	listed.Received, listed.Applied = status.Received, status.Applied
	return listed
}

// reaches reports whether etcd answers as a member, at its name or at the address of its pod: the name of a pod that is
// said to have ended does not resolve.
func (c *connection) reaches(ctx context.Context, member membership.Member) bool {
	ips := c.pods[member.Name].Status.PodIPs
	hosts := append(make([]string, 0, len(ips)+1), c.cluster.Names.Host(member.Name))
	for _, ip := range ips {
		hosts = append(hosts, ip.IP)
	}
	identity := c.identity()
	if identity != nil {
		identity = identity.Clone()
		identity.ServerName = hosts[0]
	}
	return slices.ContainsFunc(hosts, func(host string) bool {
		id, err := c.idAt(ctx, c.cluster.Names.ClientURLAt(host), identity)
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
	switch act := act.(type) {
	case membership.AddLearner:
		return c.client.AddLearner(ctx, c.cluster.Names.PeerURL(act.Name))
	case membership.Promote:
		return c.with(act.ID, func(id uint64) error { return c.client.Promote(ctx, id) })
	case membership.Remove:
		return c.with(act.ID, func(id uint64) error { return c.client.Remove(ctx, id) })
	case membership.MoveLeader:
		leader := c.cluster.Names.ClientURL(act.From)
		return c.with(act.ToID, func(id uint64) error { return c.client.MoveLeader(ctx, leader, id) })
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
	if c.client != nil {
		c.hangUp(c.client)
	}
}

func (c *connection) hangUp(client admin.Client) {
	if err := client.Close(); err != nil {
		c.options.Log.Info("closing a connection failed", "error", err.Error())
	}
}
