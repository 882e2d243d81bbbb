package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// poolPlan is what one pool becomes, before and after its ids are assigned.
type poolPlan struct {
	name     string
	resource *kafkav1.KafkaNodePool
	known    KnownPool
	roles    Roles
	replicas int
	// next and remove are the ids that the user prefers, in this order.
	next, remove []NodeID
	ids          idAssignment
}

func (p poolPlan) exists() bool { return len(p.known.NodeIDs) > 0 }

// resolvePools fills in Pools, Nodes and Leaving.
func (r *resolver) resolvePools(cluster *Cluster) {
	resources := r.ownPools()
	if !r.checkKnownIDs() {
		return
	}
	plans := make([]poolPlan, 0, len(resources))
	for i := range resources {
		plans = append(plans, r.planPool(cluster.Names, &resources[i]))
	}
	r.boundNodes(plans)
	r.assignPlans(plans)
	if !r.quorumKept(plans) {
		r.keepControllers(plans)
		r.assignPlans(plans)
	}
	for _, plan := range plans {
		r.addPool(cluster, plan)
	}
	r.addRemovedPools(cluster, resources)
	slices.SortFunc(cluster.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(cluster.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(cluster.Leaving, func(a, b Leaving) int { return cmp.Compare(a.ID, b.ID) })
	r.checkNodes(*cluster)
	r.warnOccupied(*cluster)
}

// MaxNodes is how many nodes one Kafka may have: all of them are looked at in one pass,
// which has two minutes and answers for other clusters, too.
const MaxNodes = 1000

// boundNodes refuses to make more nodes than one Kafka may have. One that has more keeps
// them.
func (r *resolver) boundNodes(plans []poolPlan) {
	wanted, has := 0, 0
	for i := range plans {
		wanted += plans[i].replicas
		has += len(plans[i].known.NodeIDs)
	}
	if wanted <= max(MaxNodes, has) {
		return
	}
	r.errorf(r.kafkaObject(), "its pools ask for %d nodes: reduce spec.replicas of its KafkaNodePools to at most %d in all, and spread more nodes over several Kafkas",
		wanted, MaxNodes)
	for i := range plans {
		plans[i].replicas = len(plans[i].known.NodeIDs)
	}
}

// ownPools are the node pools with the label of this cluster, by name.
func (r *resolver) ownPools() []kafkav1.KafkaNodePool {
	own := []kafkav1.KafkaNodePool{}
	for i := range r.in.Pools {
		pool := &r.in.Pools[i]
		if pool.Namespace == r.in.Kafka.Namespace && pool.Labels[ClusterLabel] == r.in.Kafka.Name {
			own = append(own, *pool)
		}
	}
	slices.SortFunc(own, func(a, b kafkav1.KafkaNodePool) int { return strings.Compare(a.Name, b.Name) })
	if len(own) == 0 {
		r.errorf(r.kafkaObject(), "no KafkaNodePool of namespace %s has the label %s=%s: create at least one with the role controller and one with the role broker, or one with both",
			r.in.Kafka.Namespace, ClusterLabel, r.in.Kafka.Name)
	}
	return own
}

// checkKnownIDs reports whether the ids in use are unique. If not, a status was
// edited, and any assignment could attach a volume to the wrong node.
func (r *resolver) checkKnownIDs() bool {
	holder := map[NodeID]string{}
	unique := true
	for _, name := range slices.Sorted(maps.Keys(r.in.Known.Pools)) {
		for _, id := range r.in.Known.Pools[name].NodeIDs {
			if other, taken := holder[id]; taken {
				r.errorf(r.poolObject(name), "node id %s is in use by KafkaNodePool %s too: correct status.nodeIds to what the pods are named", id, other)
				unique = false
			}
			holder[id] = name
		}
	}
	return unique
}

// planPool reads one resource.
func (r *resolver) planPool(names Names, pool *kafkav1.KafkaNodePool) poolPlan {
	object := r.poolObject(pool.Name)
	if problems := validation.IsDNS1123Label(pool.Name); len(problems) > 0 {
		r.errorf(object, "the name cannot be part of a host name (%s): create it under another name", strings.Join(problems, ", "))
	}
	if podSet := names.PodSet(pool.Name); len(podSet)+len("-0") > maxLabel {
		r.errorf(object, "pods would be named %s-<id>, longer than the %d characters of a host name: create it under a name of at most %d characters",
			podSet, maxLabel, maxLabel-len(names.PodSet(""))-len("-0"))
	}
	plan := poolPlan{
		name:     pool.Name,
		resource: pool,
		known:    r.in.Known.Pools[pool.Name],
		roles:    RolesOf(pool.Spec.Roles),
		replicas: int(pool.Spec.Replicas),
	}
	if plan.roles == (Roles{}) {
		r.errorf(object, "spec.roles names no role: set it to controller, broker, or both")
	}
	if plan.replicas < 0 {
		r.errorf(object, "spec.replicas is %d: set it to 0 or more", plan.replicas)
		plan.replicas = 0
	}
	if plan.replicas > kafkav1.MaxReplicas {
		r.errorf(object, "spec.replicas is %d: set it to at most %d, and spread more nodes over several pools", plan.replicas, kafkav1.MaxReplicas)
		plan.replicas = len(plan.known.NodeIDs)
	}
	if template := pool.Spec.Template; template != nil {
		r.checkTemplate(object, "spec.template", template.Pod)
	}
	r.warnPoolAnnotations(pool)
	plan.next = r.nodeIDs(object, pool, nextNodeIDsAnnotation)
	plan.remove = r.nodeIDs(object, pool, removeNodeIDsAnnotation)
	return plan
}

// nodeIDs reads an annotation with ids. As in Strimzi, one that cannot be read
// is as good as none: it must not stop the reconciliation of a running cluster.
func (r *resolver) nodeIDs(object string, pool *kafkav1.KafkaNodePool, annotation string) []NodeID {
	text, set := pool.Annotations[annotation]
	if !set {
		return nil
	}
	ids, err := ParseNodeIDRange(text)
	if err != nil {
		r.warnf(object, ReasonNodeIDs, "the annotation %s is ignored: %s", annotation, err)
		return nil
	}
	return ids
}

// assignPlans gives each plan its ids.
func (r *resolver) assignPlans(plans []poolPlan) {
	requests := make([]idRequest, 0, len(plans))
	for _, plan := range plans {
		requests = append(requests, idRequest{
			pool:     plan.name,
			current:  plan.known.NodeIDs,
			replicas: plan.replicas,
			next:     plan.next,
			remove:   plan.remove,
		})
	}
	assigned := assignIDs(requests, r.idHolders())
	for i := range plans {
		plans[i].ids = assigned[plans[i].name]
	}
}

// idHolders are the pools that hold ids, also those whose resource is gone.
func (r *resolver) idHolders() idHolders {
	holders := idHolders{}
	for name, pool := range r.in.Known.Pools {
		holders.add(name, pool.NodeIDs...)
	}
	for name, ids := range r.in.Known.Taken {
		holders.add(name, ids...)
	}
	return holders
}

// quorumKept reports whether the plans have exactly the controllers that the
// quorum was formed with.
func (r *resolver) quorumKept(plans []poolPlan) bool {
	voters := r.voters()
	return len(voters) == 0 || slices.Equal(controllersOf(plans), voters)
}

// voters are the controllers that the quorum was formed with. Without a record
// they are the controllers that have been built, so that a caller that knows too
// little refuses a change rather than making it.
func (r *resolver) voters() []NodeID {
	if len(r.in.Known.Voters) > 0 {
		return sortedIDs(r.in.Known.Voters)
	}
	built := []NodeID{}
	for _, pool := range r.in.Known.Pools {
		if pool.Roles.Controller {
			built = append(built, pool.NodeIDs...)
		}
	}
	return sortedIDs(built)
}

func controllersOf(plans []poolPlan) []NodeID {
	ids := []NodeID{}
	for _, plan := range plans {
		if plan.roles.Controller {
			ids = append(ids, plan.ids.desired...)
		}
	}
	slices.Sort(ids)
	return ids
}

func idsOf(nodes []Node) []NodeID {
	ids := make([]NodeID, 0, len(nodes))
	for _, node := range nodes {
		ids = append(ids, node.ID)
	}
	return ids
}

func sortedIDs(ids []NodeID) []NodeID { return slices.Sorted(slices.Values(ids)) }

// keepControllers takes back whatever would change the controllers of a running
// cluster. Its quorum is static (controller.quorum.voters): nodes that disagree
// about the voters may elect two leaders.
func (r *resolver) keepControllers(plans []poolPlan) {
	for i := range plans {
		plan := &plans[i]
		switch {
		case !plan.exists() && plan.roles.Controller && plan.replicas > 0:
			r.warnf(r.poolObject(plan.name), ReasonControllerSet,
				"its nodes are not created: controllers cannot be added to a running cluster, whose controllers are %s; set roles to broker",
				joinIDs(r.voters()))
			plan.replicas = 0
		case plan.exists() && plan.known.Roles.Controller != plan.roles.Controller:
			r.warnf(r.poolObject(plan.name), ReasonControllerSet,
				"the roles stay %s: the controllers of a running cluster (%s) cannot be changed; set roles back, and use another pool for other roles",
				strings.Join(plan.known.Roles.List(), ", "), joinIDs(r.voters()))
			plan.roles = plan.known.Roles
		}
		if plan.exists() && plan.roles.Controller && plan.replicas != len(plan.known.NodeIDs) {
			r.warnf(r.poolObject(plan.name), ReasonControllerSet,
				"replicas stay %d: the controllers of a running cluster (%s) cannot be changed; set replicas back, and use a pool with only the role broker for more brokers",
				len(plan.known.NodeIDs), joinIDs(r.voters()))
			plan.replicas = len(plan.known.NodeIDs)
		}
	}
}

func joinIDs(ids []NodeID) string {
	texts := make([]string, 0, len(ids))
	for _, id := range sortedIDs(ids) {
		texts = append(texts, id.String())
	}
	return strings.Join(texts, ", ")
}

// addPool adds a pool with its nodes, and what leaves it.
func (r *resolver) addPool(cluster *Cluster, plan poolPlan) {
	occupied := func(id NodeID) bool { return slices.Contains(r.in.Known.Occupied, id) }
	ids := slices.Clone(plan.ids.desired)
	for _, id := range plan.ids.leaving {
		addLeaving(cluster, plan, id, LeavingNode)
		if occupied(id) {
			ids = append(ids, id)
		}
	}
	if plan.exists() && plan.known.Roles.Broker && !plan.roles.Broker {
		for _, id := range plan.ids.desired {
			addLeaving(cluster, plan, id, LeavingBrokerRole)
		}
		plan.roles.Broker = slices.ContainsFunc(plan.known.NodeIDs, occupied)
	}
	slices.Sort(ids)
	storage, volumes := r.resolveStorage(plan)
	pool := Pool{
		Name:        plan.name,
		Roles:       plan.roles,
		NodeIDs:     ids,
		Storage:     storage,
		Volumes:     volumes,
		resources:   r.resolveResources(plan),
		jvmOptions:  r.resolveJvmOptions(plan),
		labels:      r.inheritedLabels(r.poolObject(plan.name), plan.resource.Labels),
		pullSecrets: r.in.Settings.pullSecrets(nodeTemplate(r.in.Kafka, plan.resource)),
	}
	addNodes(cluster, pool)
}

// addRemovedPools accounts for pools that were built and whose resource is gone.
// Those of controllers are an error by the check of the quorum.
func (r *resolver) addRemovedPools(cluster *Cluster, resources []kafkav1.KafkaNodePool) {
	for _, name := range slices.Sorted(maps.Keys(r.in.Known.Pools)) {
		if slices.ContainsFunc(resources, func(p kafkav1.KafkaNodePool) bool { return p.Name == name }) {
			continue
		}
		known := r.in.Known.Pools[name]
		plan := poolPlan{name: name, known: known, resource: &kafkav1.KafkaNodePool{}}
		pool := Pool{
			Name:       name,
			Roles:      known.Roles,
			Retired:    true,
			resources:  r.resolveResources(plan),
			jvmOptions: r.resolveJvmOptions(plan),
			labels:     map[string]string{},
		}
		for _, id := range sortedIDs(known.NodeIDs) {
			addLeaving(cluster, plan, id, LeavingNode)
			if slices.Contains(r.in.Known.Occupied, id) {
				pool.NodeIDs = append(pool.NodeIDs, id)
			}
		}
		if len(pool.NodeIDs) == 0 {
			continue
		}
		if known.Storage != nil {
			pool.Storage = *known.Storage
		}
		pool.Volumes, _ = volumesOf(pool.Storage)
		addNodes(cluster, pool)
	}
}

func addLeaving(c *Cluster, plan poolPlan, id NodeID, part LeavingPart) {
	c.Leaving = append(c.Leaving, Leaving{
		ID:     id,
		Pool:   plan.name,
		Pod:    c.Names.Pod(plan.name, id),
		What:   part,
		Broker: plan.known.Roles.Broker,
	})
}

func addNodes(c *Cluster, pool Pool) {
	c.Pools = append(c.Pools, pool)
	for _, id := range pool.NodeIDs {
		c.Nodes = append(c.Nodes, Node{ID: id, Pool: pool.Name, Pod: c.Names.Pod(pool.Name, id), Roles: pool.Roles})
	}
}

// checkNodes refuses clusters that could not work.
func (r *resolver) checkNodes(cluster Cluster) {
	if len(cluster.Pools) > 0 && len(cluster.Controllers()) == 0 {
		r.errorf(r.kafkaObject(), "no KafkaNodePool with the role controller has replicas: give the role and at least one replica to one")
	}
	if len(cluster.Pools) > 0 && len(cluster.Brokers()) == 0 {
		r.errorf(r.kafkaObject(), "%s", r.noBroker())
	}
	for _, node := range cluster.Nodes {
		if len(node.Pod) > maxLabel {
			r.errorf(r.poolObject(node.Pool), "the pod %s would have %d characters of at most %d for a host name: create the pool under a shorter name",
				node.Pod, len(node.Pod), maxLabel)
		}
	}
	controllers := idsOf(cluster.Controllers())
	if voters := r.voters(); len(voters) > 0 && !slices.Equal(controllers, voters) {
		r.errorf(r.kafkaObject(), "the controllers would be %s, but those of the running cluster are %s and cannot be changed: put back the KafkaNodePools they belong to",
			cmp.Or(joinIDs(controllers), "none"), joinIDs(voters))
	}
}

// warnOccupied names the nodes that could not leave, or not give up the role broker.
func (r *resolver) warnOccupied(cluster Cluster) {
	stay := map[LeavingPart][]NodeID{}
	for _, leaving := range cluster.Leaving {
		if slices.Contains(r.in.Known.Occupied, leaving.ID) {
			stay[leaving.What] = append(stay[leaving.What], leaving.ID)
		}
	}
	how := "once no partition has a replica on them: move those to other brokers, or set the annotation " + skipScaleDownCheckAnnotation + "=true to give them up"
	if cluster.SkipScaleDownCheck {
		how = "one after the other, and the partitions on them are given up, as the annotation " + skipScaleDownCheckAnnotation + " asks for"
	}
	if nodes := stay[LeavingNode]; len(nodes) > 0 {
		r.warnf(r.kafkaObject(), ReasonScaleDownPrevention, "the nodes %s leave %s", joinIDs(nodes), how)
	}
	if nodes := stay[LeavingBrokerRole]; len(nodes) > 0 {
		r.warnf(r.kafkaObject(), ReasonScaleDownPrevention, "the nodes %s stay as controllers and give up the role broker %s", joinIDs(nodes), how)
	}
}

// noBroker says what is wrong with a cluster without brokers. One that runs has some now.
func (r *resolver) noBroker() string {
	var now []NodeID
	for _, pool := range r.in.Known.Pools {
		if pool.Roles.Broker {
			now = append(now, pool.NodeIDs...)
		}
	}
	if len(now) == 0 {
		return "no KafkaNodePool with the role broker has replicas: give the role and at least one replica to one"
	}
	return fmt.Sprintf("no broker would be left to serve clients and to take the partitions of the existing brokers (%s): give the role broker back to their KafkaNodePool, or first create another with that role and move the partitions to it",
		joinIDs(sortedIDs(now)))
}

// resolveResources are the pool's own, or else the Kafka's.
func (r *resolver) resolveResources(plan poolPlan) corev1.ResourceRequirements {
	chosen, object := r.in.Kafka.Spec.Kafka.Resources, r.kafkaObject()
	if plan.resource.Spec.Resources != nil {
		chosen, object = plan.resource.Spec.Resources, r.poolObject(plan.name)
	}
	if chosen == nil {
		return corev1.ResourceRequirements{}
	}
	for _, name := range slices.Sorted(maps.Keys(chosen.Requests)) {
		request, limit := chosen.Requests[name], chosen.Limits[name]
		if _, limited := chosen.Limits[name]; limited && request.Cmp(limit) > 0 {
			r.errorf(object, "resources request %s of %s, more than the limit of %s: raise the limit or lower the request",
				request.String(), name, limit.String())
		}
	}
	return corev1.ResourceRequirements{Limits: maps.Clone(chosen.Limits), Requests: maps.Clone(chosen.Requests)}
}

// resolveJvmOptions are the pool's own, or else the Kafka's.
func (r *resolver) resolveJvmOptions(plan poolPlan) kafkav1.JvmOptions {
	chosen, object := r.in.Kafka.Spec.Kafka.JvmOptions, r.kafkaObject()
	if plan.resource.Spec.JvmOptions != nil {
		chosen, object = plan.resource.Spec.JvmOptions, r.poolObject(plan.name)
	}
	if chosen == nil {
		return kafkav1.JvmOptions{}
	}
	r.checkHeap(object, chosen.Xms, chosen.Xmx)
	return *chosen.DeepCopy()
}
