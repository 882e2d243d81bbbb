package controller

import (
	"cmp"
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/rollout"
)

// resolve turns the resources into the cluster as it shall be in this pass.
//
// A node that is no longer asked for stays in it until the rollout planner has
// granted its removal, and that is recorded: only then do its pod set and its
// configuration go, and the pod after them.
func (r *Reconciler) resolve(p *pass, removing *rollout.Disruption) {
	input := model.Input{Kafka: &p.kafka, Settings: r.options.Settings, Known: p.known()}
	for i := range p.pools {
		input.Pools = append(input.Pools, p.pools[i].KafkaNodePool)
	}
	p.cluster, p.findings = model.Resolve(input)
	for _, leaving := range p.cluster.Leaving {
		if removing == nil || rollout.NodeID(leaving.ID) != removing.Node {
			input.Known.Occupied = append(input.Known.Occupied, leaving.ID)
		}
	}
	if len(input.Known.Occupied) > 0 {
		p.cluster, p.findings = model.Resolve(input)
	}
}

// allNodes are the nodes of the cluster and those that are leaving it while
// their pods still run, by id.
func (p *pass) allNodes() []model.Node {
	nodes := slices.Clone(p.cluster.Nodes)
	for _, leaving := range p.cluster.Leaving {
		known := slices.ContainsFunc(nodes, func(n model.Node) bool { return n.ID == leaving.ID })
		if !known {
			nodes = append(nodes, p.leavingNode(leaving))
		}
	}
	slices.SortFunc(nodes, func(a, b model.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

func (p *pass) leavingNode(leaving model.Leaving) model.Node {
	pod := p.pods[leaving.Pod]
	return model.Node{
		ID: leaving.ID, Pool: leaving.Pool, Pod: leaving.Pod,
		Roles: model.Roles{
			Broker:     leaving.Broker,
			Controller: pod.Labels[model.ControllerRoleLabel] == "true",
		},
	}
}

func (p *pass) removalOf(node model.Node) rollout.Removal {
	for _, leaving := range p.cluster.Leaving {
		if leaving.ID != node.ID || leaving.What != model.LeavingNode {
			continue
		}
		if p.cluster.SkipScaleDownCheck {
			return rollout.RemoveAnyway
		}
		return rollout.RemoveWhenEmpty
	}
	return rollout.Keep
}
