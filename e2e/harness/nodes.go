package harness

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/agent"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/publication"
)

// Reports asks the agent of every node what its server has loaded.
func (k Kafka) Reports(ctx context.Context, opened *target.Target) (map[string]publication.Report, error) {
	agents := agentclient.New(agentclient.Options{
		Dial: opened.Network().Dial, Credentials: k.Credentials, Now: time.Now, Timeout: adminTimeout,
	})
	reports := map[string]publication.Report{}
	for _, node := range opened.Network().Nodes() {
		address := net.JoinHostPort(node.Host, strconv.Itoa(agent.SecurePort))
		report, err := agents.TLS(ctx, agentclient.Node{Address: address, Name: node.Host})
		if err != nil {
			return nil, fmt.Errorf("asking the agent of %s: %w", node.Name, err)
		}
		reports[node.Name] = report
	}
	return reports, nil
}

// Process is what ran in a node's pod at one moment.
type Process struct {
	Pod types.UID
	// Containers counts the restarts of the pod's containers.
	Containers int32
	// Started is when the agent started the server.
	Started time.Time
}

// Processes are those of all nodes, by pod.
type Processes map[string]Process

// Processes reads what runs, from the API server and from the agents.
func (k Kafka) Processes(ctx context.Context, opened *target.Target) (Processes, error) {
	list := &corev1.PodList{}
	if err := k.Kube.List(ctx, list, k.of()...); err != nil {
		return nil, fmt.Errorf("listing pods of Kafka %s: %w", k.Name, err)
	}
	reports, err := k.Reports(ctx, opened)
	if err != nil {
		return nil, err
	}
	processes := Processes{}
	for i := range list.Items {
		pod := &list.Items[i]
		report, asked := reports[pod.Name]
		if !asked {
			continue
		}
		process := Process{Pod: pod.UID, Started: report.StartedAt}
		for _, status := range pod.Status.ContainerStatuses {
			process.Containers += status.RestartCount
		}
		processes[pod.Name] = process
	}
	return processes, nil
}

// Restarted says in sentences what is not the same process any more.
func (p Processes) Restarted(now Processes) []string {
	var restarted []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		before, after := p[name], now[name]
		switch {
		case before.Pod != after.Pod:
			restarted = append(restarted, name+" has another pod")
		case before.Containers != after.Containers:
			restarted = append(restarted, fmt.Sprintf("containers of %s were restarted %d times", name, after.Containers-before.Containers))
		case !before.Started.Equal(after.Started):
			restarted = append(restarted, fmt.Sprintf("the server of %s was started at %s, before at %s", name, after.Started, before.Started))
		}
	}
	return restarted
}
