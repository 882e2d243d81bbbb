package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
)

// nobody is the id of no node.
const nobody model.NodeID = -1

// resolve turns the resources into the cluster as it shall be in this pass.
//
// A node that is no longer asked for stays in it until the rollout planner has
// granted its removal, and that is recorded: only then do its pod set and its
// configuration go, and the pod after them. One that never had a pod just goes.
func (r *Reconciler) resolve(ctx context.Context, p *pass, removing model.NodeID) error {
	input := model.Input{Kafka: &p.kafka, Settings: r.options.Settings, Known: p.known()}
	var err error
	if input.Known.Voters, err = r.knownVoters(ctx, p); err != nil {
		return err
	}
	for i := range p.pools {
		input.Pools = append(input.Pools, p.pools[i].KafkaNodePool)
	}
	p.cluster, p.findings = model.Resolve(input)
	for _, leaving := range p.cluster.Leaving {
		if leaving.ID != removing && p.exists(p.leavingNode(leaving)) {
			input.Known.Occupied = append(input.Known.Occupied, leaving.ID)
		}
	}
	if len(input.Known.Occupied) > 0 {
		p.cluster, p.findings = model.Resolve(input)
	}
	p.asked = input
	if len(p.findings.Errors) > 0 {
		// Whoever reads the condition wants to know what is wrong, not what was tried.
		unusable := &model.InvalidResourceError{Findings: p.findings.Errors}
		if !p.standOn() {
			return unusable
		}
		p.unusable = unusable
	}
	return nil
}

// knownVoters reads the quorum that was configured when a creation was
// interrupted: some pool of controllers has its pod set and another has not. In
// every other state the pod sets tell who the controllers are.
func (r *Reconciler) knownVoters(ctx context.Context, p *pass) ([]model.NodeID, error) {
	if len(p.podSets) == 0 || !slices.ContainsFunc(p.pools, p.lacksControllers) {
		return nil, nil
	}
	for name := range p.podSets {
		set := p.podSets[name]
		described := p.describedPods(&set)
		for i := range described {
			var config corev1.ConfigMap
			key := types.NamespacedName{Namespace: p.kafka.Namespace, Name: described[i].pod.Name}
			err := r.options.Live.Get(ctx, key, &config)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
			}
			if !p.isOurs(&config) && (!isUnmarked(&config) || !kube.Applied(&config, fieldOwner)) {
				continue
			}
			voters, err := model.ParseVoters(config.Data[contract.ServerConfigKey])
			if err != nil {
				return nil, fmt.Errorf("reading the quorum from ConfigMap %s: %w", key, err)
			}
			return voters, nil
		}
	}
	return nil, nil
}

// lacksControllers reports whether a pool of controllers has no pod set yet.
func (p *pass) lacksControllers(resource *pool) bool {
	_, built := p.podSets[p.kafka.Name+"-"+resource.Name]
	return !built && slices.Contains(resource.Spec.Roles, kafkav1.RoleController)
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
			Controller: pod != nil && pod.Labels[model.ControllerRoleLabel] == isTrue,
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
