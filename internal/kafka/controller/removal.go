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

// noNode is the id of no node.
const noNode model.NodeID = -1

// resolve turns the resources into the cluster as it shall be in this reconcile.
//
// A node that is no longer asked for stays in it until the rollout planner has
// granted its removal, and that is recorded: only then do its pod set and its
// configuration go, and the pod after them. One that never had a pod just goes.
func (r *Reconciler) resolve(ctx context.Context, c *desired, removing model.NodeID) error {
	input := model.Input{Kafka: &c.kafka, Settings: r.options.Settings, Known: c.known()}
	var err error
	if input.Known.Voters, err = r.knownVoters(ctx, c.observation); err != nil {
		return err
	}
	for i := range c.pools {
		input.Pools = append(input.Pools, c.pools[i].KafkaNodePool)
	}
	c.cluster, c.findings = model.Resolve(input)
	for _, leaving := range c.cluster.Leaving {
		if leaving.ID != removing && c.exists(c.leavingNode(leaving)) {
			input.Known.Occupied = append(input.Known.Occupied, leaving.ID)
		}
	}
	if len(input.Known.Occupied) > 0 {
		c.cluster, c.findings = model.Resolve(input)
	}
	c.asked = input
	if len(c.findings.Errors) > 0 {
		// The condition says what is wrong, not what was tried.
		unusable := &model.InvalidResourceError{Findings: c.findings.Errors}
		if !c.useLastKnown() {
			return unusable
		}
		c.unusable = unusable
	}
	return nil
}

// knownVoters reads the quorum that was configured when a creation was
// interrupted: some pool of controllers has its pod set and another has not. In
// every other state the pod sets tell who the controllers are.
func (r *Reconciler) knownVoters(ctx context.Context, o *observation) ([]model.NodeID, error) {
	if len(o.podSets) == 0 || !slices.ContainsFunc(o.pools, o.lacksControllers) {
		return nil, nil
	}
	for name := range o.podSets {
		set := o.podSets[name]
		described := o.describedPods(&set)
		for i := range described {
			var config corev1.ConfigMap
			key := types.NamespacedName{Namespace: o.kafka.Namespace, Name: described[i].pod.Name}
			err := r.options.Live.Get(ctx, key, &config)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
			}
			if !o.isOurs(&config) && (!isUnmarked(&config) || !kube.Applied(&config, fieldOwner)) {
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
func (o *observation) lacksControllers(resource *pool) bool {
	_, built := o.podSets[o.kafka.Name+"-"+resource.Name]
	return !built && slices.Contains(resource.Spec.Roles, kafkav1.RoleController)
}

// allNodes are the nodes of the cluster and those that are leaving it while
// their pods still run, by id.
func (c *desired) allNodes() []model.Node {
	nodes := slices.Clone(c.cluster.Nodes)
	for _, leaving := range c.cluster.Leaving {
		known := slices.ContainsFunc(nodes, func(n model.Node) bool { return n.ID == leaving.ID })
		if !known {
			nodes = append(nodes, c.leavingNode(leaving))
		}
	}
	slices.SortFunc(nodes, func(a, b model.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

func (o *observation) leavingNode(leaving model.Leaving) model.Node {
	pod := o.pods[leaving.Pod]
	return model.Node{
		ID: leaving.ID, Pool: leaving.Pool, Pod: leaving.Pod,
		Roles: model.Roles{
			Broker:     leaving.Broker,
			Controller: pod != nil && pod.Labels[model.ControllerRoleLabel] == isTrue,
		},
	}
}

func (c *desired) removalOf(node model.Node) rollout.Removal {
	for _, leaving := range c.cluster.Leaving {
		if leaving.ID != node.ID || leaving.What != model.LeavingNode {
			continue
		}
		if c.cluster.SkipScaleDownCheck {
			return rollout.RemoveAnyway
		}
		return rollout.RemoveWhenEmpty
	}
	return rollout.Keep
}
