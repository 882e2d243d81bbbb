package harness

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/members"
	"github.com/keyturn/keyturn/internal/publication"
)

// CAs are those of a cluster, by plane, which sign.
func (e Etcd) CAs(ctx context.Context) (map[contract.Plane]pki.Authority, error) {
	cas := map[contract.Plane]pki.Authority{}
	for _, plane := range contract.Planes() {
		ca, err := e.CA(ctx, plane)
		if err != nil {
			return nil, err
		}
		cas[plane] = ca
	}
	return cas, nil
}

// Trusting are the Secrets by which members, applications, backups or the operator trust any of these CAs. Those with the keys of CAs
// keep the former ones.
func (e Etcd) Trusting(ctx context.Context, cas map[contract.Plane]pki.Authority) ([]string, error) {
	var trusting []string
	for _, namespace := range []string{e.Namespace, OperatorNamespace} {
		var secrets corev1.SecretList
		if err := e.Kube.List(ctx, &secrets, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing Secrets in namespace %s: %w", namespace, err)
		}
		for i := range secrets.Items {
			secret := &secrets.Items[i]
			trusts, err := trustsAny(secret.Data, cas)
			if err != nil {
				return nil, fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(secret), err)
			}
			holdsKeys := slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool { return secret.Name == e.names().CAKeySecret(plane) })
			if trusts && !holdsKeys {
				trusting = append(trusting, client.ObjectKeyFromObject(secret).String())
			}
		}
	}
	slices.Sort(trusting)
	return trusting, nil
}

// trustsAny reports whether the data of a Secret have a pod trust any of these CAs: by what is published to it, or any certificate.
func trustsAny(data map[string][]byte, cas map[contract.Plane]pki.Authority) (bool, error) {
	var trusted []string
	text, isPublication := data[agent.PublicationKey]
	if isPublication {
		published, err := publication.ParsePublication(text)
		if err != nil {
			return false, err
		}
		trusted = slices.Concat(slices.Collect(maps.Values(published.Trust))...)
	}
	for _, entry := range data {
		for block, rest := pem.Decode(entry); block != nil && !isPublication; block, rest = pem.Decode(rest) {
			trusted = append(trusted, pki.Fingerprint(sha256.Sum256(block.Bytes)).String())
		}
	}
	return slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool {
		return slices.Contains(trusted, pki.FingerprintOf(cas[plane].Certificate()).String())
	}), nil
}

// CALife is a change that limits the life of the CA of a plane.
func CALife(plane contract.Plane, validity time.Duration) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		return unstructured.SetNestedField(object.Object, validity.String(), "spec", "TLS", "dynamic", string(plane)+"CA", "validity")
	}
}

// yes is the value of annotations that ask for something.
const yes = "true"

// ReplaceCAs asks for another key of each CA.
func (e Etcd) ReplaceCAs(ctx context.Context) error {
	return errors.Join(e.ReplaceCA(ctx, contract.PeerPlane), e.ReplaceCA(ctx, contract.ClientPlane))
}

// ReplaceCA asks for another key of the CA of a plane.
func (e Etcd) ReplaceCA(ctx context.Context, plane contract.Plane) error {
	return e.annotateCA(ctx, plane, map[string]string{domains.ForceReplaceAnnotation: yes})
}

// Rotate asks as people do, by the plugin.
func (e Etcd) Rotate(ctx context.Context, flags ...string) error {
	return e.Kube.runGo(ctx, nil, e.plugin("rotate", flags...)...)
}

func (e Etcd) plugin(command string, flags ...string) []string {
	return append([]string{"run", "./cmd/kubectl-keyturn", command, "etcd/" + e.Name, "--namespace", e.Namespace, "--operator-namespace", OperatorNamespace}, flags...)
}

// Probe has the plugin probe the cluster as an application does. The error has the account where clients were harmed.
func (e Etcd) Probe(ctx context.Context, access string, duration time.Duration) error {
	return e.Kube.runGo(ctx, nil, "run", "./cmd/kubectl-keyturn", "probe", "etcd/"+e.Name, "--namespace", e.Namespace, "--access", access, "--duration", duration.String())
}

// PlannedRestarts are how often each member is to be started again, as the plugin says for a change.
func (e Etcd) PlannedRestarts(ctx context.Context, flags ...string) (map[string]int, error) {
	printed, err := e.Kube.outputOfGo(ctx, nil, e.plugin("plan", append(flags, "-o", "json")...)...)
	if err != nil {
		return nil, err
	}
	var plan struct {
		Domains []struct {
			Nodes []struct {
				Node     string `json:"node"`
				Restarts int    `json:"restarts"`
			} `json:"nodes"`
		} `json:"domains"`
	}
	if err := json.Unmarshal(printed, &plan); err != nil {
		return nil, fmt.Errorf("reading a plan: %w", err)
	}
	restarts := map[string]int{}
	for _, domain := range plan.Domains {
		for _, node := range domain.Nodes {
			restarts[node.Node] += node.Restarts
		}
	}
	return restarts, nil
}

// ClientsMoved says that all applications have taken over what was issued to them until now.
func (e Etcd) ClientsMoved(ctx context.Context) error {
	return e.annotateCA(ctx, contract.ClientPlane, map[string]string{domains.ClientsMovedAnnotation: time.Now().UTC().Format(time.RFC3339)})
}

func (e Etcd) annotateCA(ctx context.Context, plane contract.Plane, annotations map[string]string) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = OperatorNamespace, e.names().CAKeySecret(plane)
	return e.Kube.Annotate(ctx, secret, annotations)
}

// Trusts are the CAs by the fingerprints that all members report that etcd has loaded in a plane.
func Trusts(status etcdv1beta2.EtcdClusterStatus, plane contract.Plane) map[string]bool {
	trusted := map[string]bool{}
	for i := range status.MemberStatuses {
		for _, loaded := range status.MemberStatuses[i].Loaded {
			for _, ca := range loaded.Trusts {
				if loaded.Plane == string(plane) {
					trusted[ca] = true
				}
			}
		}
	}
	return trusted
}

// KeepCAs reads the Secrets of both CAs. Restoring them has what they hold put in the place of what is there.
func (e Etcd) KeepCAs(ctx context.Context) (restore func(context.Context) error, err error) {
	var kept []*corev1.Secret
	for _, plane := range contract.Planes() {
		for _, name := range []string{e.names().CAKeySecret(plane), e.names().CACertSecret(plane), e.names().TrustedCertsSecret(plane)} {
			secret := &corev1.Secret{}
			if err := e.Kube.Get(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: name}, secret); err != nil {
				return nil, fmt.Errorf("reading Secret %s: %w", name, err)
			}
			kept = append(kept, secret)
		}
	}
	return func(ctx context.Context) error {
		errs := make([]error, 0, len(kept))
		for _, of := range kept {
			secret := of.DeepCopy()
			secret.ResourceVersion, secret.ManagedFields = "", nil
			errs = append(errs, e.Kube.Update(ctx, secret, owner))
		}
		return errors.Join(errs...)
	}, nil
}

// CountRestarts counts how often each pod is asked to start etcd again, until it is stopped.
func (e Etcd) CountRestarts(ctx context.Context) (stop func() (map[string]int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	asked, done := map[string]string{}, make(chan error, 1)
	go func() {
		done <- e.Kube.Follow(ctx, &corev1.PodList{}, func(pods Objects) (bool, error) {
			for name, pod := range pods {
				if revision := pod.GetAnnotations()[contract.RestartAnnotation]; revision != "" {
					asked[name+" "+string(pod.GetUID())+" "+revision] = name
				}
			}
			return false, nil
		}, selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name})...)
	}()
	return func() (map[string]int, error) {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("counting restarts of EtcdCluster %s: %w", e.Name, err)
		}
		counted := map[string]int{}
		for _, name := range asked {
			counted[name]++
		}
		return counted, nil
	}
}

// UntilTrustedAlone waits until the members report that etcd has loaded one CA in each plane, and another one than before.
func (e Etcd) UntilTrustedAlone(ctx context.Context, before map[contract.Plane]pki.Authority) error {
	return e.UntilStatus(ctx, func(status etcdv1beta2.EtcdClusterStatus) bool {
		for i := range status.MemberStatuses {
			loaded := status.MemberStatuses[i].Loaded
			isAlone := func(plane etcdv1beta2.LoadedPlane) bool {
				former := pki.FingerprintOf(before[contract.Plane(plane.Plane)].Certificate()).String()
				return len(plane.Trusts) == 1 && plane.Trusts[0] != former
			}
			if len(loaded) != len(contract.Planes()) || slices.ContainsFunc(loaded, func(plane etcdv1beta2.LoadedPlane) bool { return !isAlone(plane) }) {
				return false
			}
		}
		return len(status.MemberStatuses) > 0 && IsReady(status)
	})
}

// Application is how an application connects that reads the Secret of its EtcdAccess anew for each connection.
func (e Etcd) Application(ctx context.Context, access types.NamespacedName) *tls.Config {
	return members.Application(func() (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		if err := e.Kube.Get(ctx, access, secret); err != nil {
			return nil, fmt.Errorf("reading the Secret of EtcdAccess %s: %w", access, err)
		}
		return secret, nil
	})
}
