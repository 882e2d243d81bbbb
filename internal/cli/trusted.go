package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/rotation"
)

// refusedError is what is not done, because it would be wrong or in vain. Nothing
// was changed.
type refusedError struct{ reason string }

func (e refusedError) Error() string { return e.reason + "; nothing was changed" }

// ownRefusal refuses what only the owner of a CA can do.
func (c cluster) ownRefusal(kafka *kafkav1.Kafka, domain string) error {
	if caSource(kafka, domain) == authority.Outside {
		return refuse("the %s of %s belongs to an issuer of cert-manager: renew or replace it there, and update the Secret of its caCert, see docs/cert-manager.md", called(domain), c)
	}
	return refuse("the %s of %s is your own (generateCertificateAuthority is false): replace its key or certificate yourself, see docs/certificates.md", called(domain), c)
}

func refuse(format string, args ...any) error {
	return refusedError{fmt.Sprintf(format, args...)}
}

// noRecordError is a Kafka whose trust the operator has recorded nothing about.
type noRecordError struct{ kafka, see string }

func (e noRecordError) Error() string {
	return fmt.Sprintf("the operator has recorded nothing about the certificates of %s yet: %s shows why", e.kafka, e.see)
}

// cluster is one Kafka as the commands about trust read it.
type cluster struct {
	connection

	name string
}

func (c connection) cluster(resource string) (cluster, error) {
	name, err := clusterName(resource)
	if err != nil {
		return cluster{}, err
	}
	return cluster{connection: c, name: name}, nil
}

func (c cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c cluster) kafka(ctx context.Context) (*kafkav1.Kafka, error) {
	kafka := &kafkav1.Kafka{}
	if err := c.client.Get(ctx, c.key(c.name), kafka); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s does not exist in namespace %s: %s status --all-namespaces lists those that do", c, c.namespace, c.program)
		}
		return nil, withRights(uninstalled(fmt.Errorf("reading Kafka %s/%s: %w", c.namespace, c.name, err)), c.rights())
	}
	return kafka, nil
}

// rights are those that looking at the Kafka takes.
func (c cluster) rights() string {
	return fmt.Sprintf("get kafkas.kafka.strimzi.io %s and ConfigMap %s in namespace %s", c.name, rotation.ConfigMapName(c.name), c.namespace)
}

// uninstalled adds what to do about an API server that knows no Kafka.
func uninstalled(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w (Keyturn is not installed in this Kubernetes cluster: see docs/install.md)", err)
	}
	return err
}

// String names the Kafka as people do.
func (c cluster) String() string { return kafkaPrefix + c.name }

// see is the command that shows how the Kafka fares.
func (c cluster) see() string {
	return fmt.Sprintf("%s status %s -n %s", c.program, c, c.namespace)
}

func (c cluster) noRecord() error { return noRecordError{kafka: c.String(), see: c.see()} }

// records reads what the operator has recorded, by domain.
func (c cluster) records(ctx context.Context, kafka *kafkav1.Kafka) (map[string]rotation.Record, error) {
	stored := &corev1.ConfigMap{}
	name := rotation.ConfigMapName(c.name)
	err := c.client.Get(ctx, c.key(name), stored)
	if apierrors.IsNotFound(err) {
		return nil, c.noRecord()
	}
	if err != nil {
		return nil, withRights(fmt.Errorf("reading ConfigMap %s/%s: %w", c.namespace, name, err), c.rights())
	}
	records := map[string]rotation.Record{}
	for _, domain := range domains() {
		encoded, found := stored.BinaryData[rotation.Key(domain)]
		if !found {
			continue
		}
		record, err := authorities.Words().Parse(encoded)
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", c.namespace, name, err)
		}
		record.UserProvided = caSource(kafka, domain) == authority.UserProvided
		records[domain] = record
	}
	if len(records) == 0 {
		return nil, c.noRecord()
	}
	return records, nil
}

func (c cluster) record(ctx context.Context, kafka *kafkav1.Kafka, domain string) (rotation.Record, error) {
	records, err := c.records(ctx, kafka)
	if err != nil {
		return rotation.Record{}, err
	}
	record, found := records[domain]
	if !found {
		return rotation.Record{}, fmt.Errorf("reading the record of the %s: %w", called(domain), c.noRecord())
	}
	return record, nil
}

// domains are the authorities of a cluster, in the order in which they are shown.
func domains() []string { return []string{string(authorities.Cluster), string(authorities.Clients)} }

// drift is what has become of the objects of a record since.
type drift struct {
	// Moved says which are not what they were, Unknown which nobody could read.
	Moved   []string `json:"moved,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

// since compares the objects that a record was made from with those of now. It asks
// for metadata only: no key comes over the wire.
// live are the versions that are known already.
func (c connection) since(ctx context.Context, record rotation.Record, live map[string]string) drift {
	var d drift
	for _, object := range slices.Sorted(maps.Keys(record.Versions)) {
		kind, name, _ := strings.Cut(object, " ")
		version, known := live[name]
		if !known {
			secret, err := c.secret(ctx, name)
			switch {
			case kind != "Secret" || err != nil && !apierrors.IsNotFound(err):
				d.Unknown = append(d.Unknown, object)
				continue
			case err != nil:
				d.Moved = append(d.Moved, object+" (deleted)")
				continue
			}
			version = secret.ResourceVersion
		}
		if then := record.Versions[object]; version != then {
			d.Moved = append(d.Moved, fmt.Sprintf("%s (resourceVersion %s, now %s)", object, then, version))
		}
	}
	return d
}

// versions are the resource versions of the cluster's Secrets by name; none when
// they may not be listed.
func (c cluster) versions(ctx context.Context) map[string]string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	versions := map[string]string{}
	if err := c.client.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{model.ClusterLabel: c.name}); err != nil {
		return versions
	}
	for i := range list.Items {
		versions[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return versions
}

// secret reads the metadata of a Secret.
func (c connection) secret(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", c.namespace, name, err)
	}
	return secret, nil
}

// caSource says where the CA of a domain comes from.
func caSource(kafka *kafkav1.Kafka, domain string) authority.Source {
	ca := kafka.Spec.ClusterCa
	if domain == string(authorities.Clients) {
		ca = kafka.Spec.ClientsCa
	}
	return model.CASpec(ca).Source
}

// called is what people call the authority of a domain, such as "cluster CA" for "cluster-ca".
func called(domain string) string { return strings.TrimSuffix(domain, "-ca") + " CA" }

// ago is how long ago something was, as short as people say it.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
