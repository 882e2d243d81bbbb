package harness

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/probe/target"
)

// Metrics are the values of a process by series, such as
// `keyturn_agent_reloads_total{outcome="loaded"}`.
type Metrics map[string]float64

// maxMetrics bounds an answer.
const maxMetrics = 1 << 20

// AgentMetrics asks the agents of all nodes, by pod.
func (k Kafka) AgentMetrics(ctx context.Context, opened *target.Target) (map[string]Metrics, error) {
	operator, err := opened.Operator()
	if err != nil {
		return nil, err
	}
	asking := &http.Client{Timeout: adminTimeout, Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return operator.Connect(ctx, opened.Network(), address)
		},
		DisableKeepAlives: true,
	}}
	all := map[string]Metrics{}
	for _, node := range opened.Network().Nodes() {
		url := "https://" + net.JoinHostPort(node.Host, strconv.Itoa(agent.SecurePort)) + agent.MetricsPath
		if all[node.Name], err = metrics(ctx, asking, url); err != nil {
			return nil, fmt.Errorf("asking the agent of %s for metrics: %w", node.Name, err)
		}
	}
	return all, nil
}

func metrics(ctx context.Context, asking *http.Client, url string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := asking.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics))
	if err != nil {
		return nil, err
	}
	return ParseMetrics(string(text)), nil
}

// operatorMetricsPort is where the operator's pods tell their metrics.
const operatorMetricsPort = "8080"

// OperatorMetrics asks the operator's pods, through the API server. Only the one that
// leads tells of clusters.
func (k *Kubernetes) OperatorMetrics(ctx context.Context) (Metrics, error) {
	pods, err := k.OperatorPods(ctx)
	if err != nil {
		return nil, err
	}
	all := Metrics{}
	for i := range pods {
		text, err := k.Plain.CoreV1().Pods(pods[i].Namespace).ProxyGet("http", pods[i].Name, operatorMetricsPort, "/metrics", nil).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading metrics of pod %s: %w", pods[i].Name, err)
		}
		maps.Copy(all, ParseMetrics(string(text)))
	}
	return all, nil
}

// ParseMetrics reads Prometheus' text form, as far as series without a time go.
func ParseMetrics(text string) Metrics {
	values := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.LastIndex(line, " ")
		if end < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if value, err := strconv.ParseFloat(line[end+1:], 64); err == nil {
			values[line[:end]] = value
		}
	}
	return values
}
