package controller

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// agentTimeout bounds a poll of an agent, its connection included.
const agentTimeout = 3 * time.Second

// AgentClient is the client of agents. See client.Client for its errors.
type AgentClient interface {
	TLS(ctx context.Context, node client.Node) (publication.Report, error)
}

// Agents returns clients of agents that connect over the network.
func Agents(now clock.PassiveClock) func(mtls.Credentials) AgentClient {
	return func(credentials mtls.Credentials) AgentClient {
		return client.New(client.Options{
			Dial:        (&net.Dialer{}).DialContext,
			Credentials: func(context.Context) (mtls.Credentials, error) { return credentials, nil },
			Now:         now.Now,
			Timeout:     agentTimeout,
		})
	}
}

// trackAgents has the agents of members polled from now on. One serves the operator once it has a certificate.
func (p *pass) trackAgents() {
	if p.cluster.Names.Mode != model.Dynamic {
		return
	}
	agents := p.options.Agents(p.authorities.credentials())
	var targets []reports.Target[publication.Report]
	for _, member := range p.members {
		if pod := p.pollable(member); pod != nil {
			targets = append(targets, p.target(pod, agents))
		}
	}
	p.poller.Track(p.cluster.Names.NamespacedName(), targets)
}

// pollable is the pod of a member whose agent can be polled; nil when there is none.
func (p *pass) pollable(member membership.Member) *corev1.Pod {
	pod := p.pods[member.Name]
	if pod == nil || string(pod.UID) != member.PodUID || pod.Status.PodIP == "" || !pod.DeletionTimestamp.IsZero() || hasEnded(pod) || !hasAnswer(pod) {
		return nil
	}
	return pod
}

// arePolled reports whether each agent that can be polled was polled, whether or not it answered.
func (p *pass) arePolled() bool {
	latest := p.poller.Latest(p.cluster.Names.NamespacedName())
	return !slices.ContainsFunc(p.members, func(member membership.Member) bool {
		pod := p.pollable(member)
		if pod == nil {
			return false
		}
		_, isPolled := latest[pod.UID]
		return !isPolled
	})
}

func (p *pass) target(pod *corev1.Pod, agents AgentClient) reports.Target[publication.Report] {
	exchange := enroll.ExchangeOf(pod.Annotations)
	node := client.Node{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(agent.SecurePort)),
		Name:    p.cluster.Names.Host(pod.Name),
		Leaves:  p.leavesOf(pod, exchange),
		Roles:   len(contract.Planes()) + 1,
	}
	return reports.Target[publication.Report]{
		UID:  pod.UID,
		Life: lifeOf(pod, exchange),
		Ask: func(ctx context.Context) (*publication.Report, error) {
			report, err := agents.TLS(ctx, node)
			if err != nil {
				return nil, err
			}
			return &report, nil
		},
	}
}

// lifeOf changes with what makes another report of a pod's agent likely.
func lifeOf(pod *corev1.Pod, exchange enroll.Exchange) string {
	var life strings.Builder
	fmt.Fprintf(&life, "%s %t %s %s %s", pod.Status.PodIP, isReady(pod), pod.Annotations[agent.PublishedAnnotation], pod.Annotations[contract.RestartAnnotation], etcdIn(pod).ContainerID)
	for _, plane := range contract.Planes() {
		fmt.Fprintf(&life, " %x", sha256.Sum256([]byte(exchange.Answers[plane])))
	}
	return life.String()
}

// leavesOf are the certificates by which an agent is known after they have expired: those that the ledger has, too, because
// others than the operator can write into the annotations.
func (p *pass) leavesOf(pod *corev1.Pod, exchange enroll.Exchange) []string {
	chain, err := enroll.Chain(exchange.Answers[contract.ClientPlane])
	if err != nil || !p.ledger.issued.HasLeaf(chain[0], enroll.Holder{PodUID: string(pod.UID), Plane: contract.ClientPlane}) {
		return nil
	}
	return []string{mtls.Fingerprint(chain[0].Raw)}
}

// certificate is the identity as crypto/tls wants it.
func (o operatorIdentity) certificate() tls.Certificate {
	certificate := tls.Certificate{PrivateKey: o.key.Signer()}
	for _, c := range o.chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	return certificate
}

// reported is what is known of the certificates that members have loaded.
func (p *pass) reported() map[string]model.Reported {
	latest, reported := p.poller.Latest(p.cluster.Names.NamespacedName()), map[string]model.Reported{}
	for _, member := range p.members {
		pod := p.pollable(member)
		if pod == nil || p.cluster.Names.Mode != model.Dynamic {
			continue
		}
		known, isPolled := latest[pod.UID]
		reported[member.Name] = model.Reported{IsPolled: isPolled, Report: known.Answer, Silence: silenceOf(known.Err), Since: known.Since, Issued: leavesIn(pod)}
	}
	p.wakeAt(model.ReportedProblemAt(reported, p.now))
	return reported
}

// silenceOf is why an agent does not report.
func silenceOf(err error) model.Silence {
	_, isUnreachable := errors.AsType[*client.UnreachableError](err)
	_, isRejected := errors.AsType[*client.RefusedError](err)
	_, isUntrusted := errors.AsType[*client.UntrustedError](err)
	switch {
	case err == nil, isUnreachable:
		return model.Unreachable
	case isRejected:
		return model.OperatorRejected
	case isUntrusted:
		return model.Unproven
	default:
		return model.Unreadable
	}
}

// PollAgents polls the agents of members that are due, and returns the clusters whose reports have changed. It reads nothing
// from the API server, and writes nothing.
func (r *Reconciler) PollAgents(ctx context.Context) []types.NamespacedName {
	return r.poller.Poll(ctx)
}
