package harness

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/e2e/harness/keysearch"
)

// KeySearch looks for private keys in all that an EtcdCluster has, and remembers the
// certificates that were issued for it.
type KeySearch struct {
	*keysearch.Search

	etcd Etcd
}

// KeySearch begins one. Where the operator may have keys is in docs/compatibility.md, and
// written here once more by hand: the names that the operator's code gives are not asked for.
// Applications are the EtcdAccesses without a request, whose Secrets have keys.
func (e Etcd) KeySearch(applications ...types.NamespacedName) *KeySearch {
	const cas, clients = `(.+\..+|keyturn-etcd-operator)-(peer|client)-ca`, `.+\..+-operator`
	secret := func(name, entry string) *regexp.Regexp {
		return regexp.MustCompile(`^Secret ` + OperatorNamespace + `/` + name + `\.data\.` + entry + `$`)
	}
	own := make([]string, 0, len(applications)+2)
	own = append(own, regexp.QuoteMeta(e.Namespace), OperatorNamespace)
	rules := make([]keysearch.Rule, 0, len(applications)+2)
	rules = append(rules,
		keysearch.Rule{Place: secret(cas, `ca\.key`), Of: func(c *x509.Certificate) bool { return c.IsCA }},
		keysearch.Rule{Place: secret(clients, `tls\.key`), Of: isClientOnly},
	)
	for _, application := range applications {
		own = append(own, regexp.QuoteMeta(application.Namespace))
		rules = append(rules, keysearch.Rule{
			Place: regexp.MustCompile(`^Secret ` + regexp.QuoteMeta(application.String()) + `\.data\.tls\.key$`),
			Of: func(c *x509.Certificate) bool {
				return isClientOnly(c) && c.Subject.CommonName == application.Namespace+":"+application.Name
			},
		})
	}
	return &KeySearch{etcd: e, Search: keysearch.New(regexp.MustCompile(`^\S+ (`+strings.Join(own, "|")+`)/`), rules...)}
}

func isClientOnly(c *x509.Certificate) bool {
	return !c.IsCA && slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
}

// Everything looks at all objects of the Kubernetes cluster, at the logs of the EtcdCluster's
// and the operator's pods, and at a snapshot of each member.
func (s *KeySearch) Everything(ctx context.Context) error {
	return errors.Join(s.objects(ctx), s.logs(ctx, s.etcd.Namespace), s.logs(ctx, OperatorNamespace), s.snapshots(ctx))
}

func (s *KeySearch) objects(ctx context.Context) error {
	kube := s.etcd.Kube
	// What an aggregated API does not tell is in no object that is stored.
	lists, err := discovery.ServerPreferredResources(kube.Plain.Discovery())
	if err != nil && len(lists) == 0 {
		return fmt.Errorf("asking which kinds of objects there are: %w", err)
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			items, err := kube.every(ctx, list.GroupVersion, resource)
			if err != nil {
				return err
			}
			for i := range items {
				s.LookInto(fmt.Sprintf("%s %s/%s", resource.Kind, items[i].GetNamespace(), items[i].GetName()), items[i].Object)
			}
		}
	}
	return s.ledger(ctx)
}

// every lists the objects of a kind in all namespaces, none when it cannot be listed.
func (k *Kubernetes) every(ctx context.Context, group string, resource metav1.APIResource) ([]unstructured.Unstructured, error) {
	if !slices.Contains(resource.Verbs, "list") {
		return nil, nil
	}
	items := &unstructured.UnstructuredList{}
	items.SetGroupVersionKind(schema.FromAPIVersionAndKind(group, resource.Kind+"List"))
	err := k.List(ctx, items)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return nil, fmt.Errorf("listing %s: %w", resource.Name, err)
	}
	return items.Items, nil
}

// ledger reads for which keys certificates were issued.
func (s *KeySearch) ledger(ctx context.Context) error {
	ledger := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: OperatorNamespace, Name: s.etcd.Namespace + "." + s.etcd.Name + "-issued"}
	if err := s.etcd.Kube.Get(ctx, key, ledger); err != nil {
		return client.IgnoreNotFound(err)
	}
	for serial, text := range ledger.Data {
		var entry struct {
			SPKI keysearch.KeyID `json:"spki"`
		}
		if err := json.Unmarshal([]byte(text), &entry); err != nil {
			return fmt.Errorf("reading entry %s of ConfigMap %s: %w", serial, key.Name, err)
		}
		s.Issued(entry.SPKI)
	}
	return nil
}

// logs looks at those of the present and the previous containers.
func (s *KeySearch) logs(ctx context.Context, namespace string) error {
	pods := &corev1.PodList{}
	if err := s.etcd.Kube.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, previous := range []bool{false, true} {
				options := &corev1.PodLogOptions{Container: container.Name, Previous: previous}
				text, err := s.etcd.Kube.Plain.CoreV1().Pods(namespace).GetLogs(pod.Name, options).DoRaw(ctx)
				if err != nil {
					continue // a container that has not run has no log
				}
				s.Look(fmt.Sprintf("log %s/%s/%s", namespace, pod.Name, container.Name), text)
			}
		}
	}
	return nil
}

// snapshots looks at the data of each member.
func (s *KeySearch) snapshots(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := s.etcd.Kube.List(ctx, pods, s.etcd.voters()...); err != nil {
		return fmt.Errorf("listing the members of EtcdCluster %s: %w", s.etcd.Name, err)
	}
	for i := range pods.Items {
		member := pods.Items[i].Name
		data, err := s.etcd.Snapshot(ctx, member)
		if err != nil {
			return err
		}
		s.Look(fmt.Sprintf("snapshot %s/%s", s.etcd.Namespace, member), data)
	}
	return nil
}

// Snapshot is the data of a member as etcd sends it to a client.
func (e Etcd) Snapshot(ctx context.Context, member string) ([]byte, error) {
	config, err := e.Operator(ctx)
	if err != nil {
		return nil, err
	}
	connected, err := e.Client(ctx, member, config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connected.Close() }()
	snapshot, err := connected.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("taking a snapshot of member %s: %w", member, err)
	}
	data, err := io.ReadAll(snapshot)
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return nil, fmt.Errorf("reading a snapshot of member %s: %w", member, err)
	}
	return data, nil
}
