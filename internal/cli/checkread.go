package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/cli/check"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// everyNamespace is what the API server is asked for all namespaces by.
const everyNamespace = ""

// survey is what was read for a check.
type survey struct {
	snapshots []check.Snapshot
	// notChecked says which kinds of clusters were left out.
	notChecked []string
}

// kafkaSurvey reads one Kafka.
func (c connection) kafkaSurvey(ctx context.Context, resource string) (survey, error) {
	one, err := c.cluster(resource)
	if err != nil {
		return survey{}, err
	}
	kafka, err := one.kafka(ctx)
	if err != nil {
		return survey{}, err
	}
	return survey{snapshots: []check.Snapshot{one.snapshot(ctx, kafka)}}, ctx.Err()
}

// etcdSurvey reads one EtcdCluster.
func (c connection) etcdSurvey(ctx context.Context, name string) (survey, error) {
	one := etcdCluster{connection: c, name: name}
	etcd, err := one.etcd(ctx)
	if err != nil {
		return survey{}, err
	}
	return survey{snapshots: []check.Snapshot{one.snapshot(ctx, etcd)}}, ctx.Err()
}

// survey reads all clusters of a namespace, or of all. A person without rights to EtcdClusters, which take more than
// those to Kafkas, has the Kafkas checked and reads that nothing else was.
func (c connection) survey(ctx context.Context, namespace string) (survey, error) {
	var seen survey
	kafkas, err := c.kafkaSnapshots(ctx, namespace)
	noKafkas := meta.IsNoMatchError(err)
	if err != nil && !noKafkas {
		return seen, withRights(err, "list kafkas.kafka.strimzi.io and get configmaps in "+placed(namespace))
	}
	etcds, err := c.etcdSnapshots(ctx, namespace)
	switch {
	case apierrors.IsForbidden(err) && !noKafkas:
		seen.notChecked = append(seen.notChecked, fmt.Sprintf(
			"EtcdClusters were not checked: ask for the right to list etcdclusters.etcd.database.coreos.com in %s, or name one cluster.", placed(namespace)))
	case meta.IsNoMatchError(err) && !noKafkas:
	case err != nil:
		return seen, withRights(uninstalled(err), "list etcdclusters.etcd.database.coreos.com in "+placed(namespace))
	}
	seen.snapshots = slices.Concat(kafkas, etcds)
	if len(seen.snapshots) == 0 && ctx.Err() == nil {
		return seen, fmt.Errorf("there is no cluster to check in %s: check the namespace", placed(namespace))
	}
	return seen, ctx.Err()
}

func placed(namespace string) string {
	if namespace == everyNamespace {
		return "all namespaces"
	}
	return "namespace " + namespace
}

func (c connection) kafkaSnapshots(ctx context.Context, namespace string) ([]check.Snapshot, error) {
	list := &kafkav1.KafkaList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Kafkas of %s: %w", placed(namespace), err)
	}
	snapshots := make([]check.Snapshot, 0, len(list.Items))
	for i := range list.Items {
		one := cluster{connection: c, name: list.Items[i].Name}
		one.namespace = list.Items[i].Namespace
		snapshots = append(snapshots, one.snapshot(ctx, &list.Items[i]))
	}
	return snapshots, nil
}

func (c connection) etcdSnapshots(ctx context.Context, namespace string) ([]check.Snapshot, error) {
	list := &etcdv1beta2.EtcdClusterList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the EtcdClusters of %s: %w", placed(namespace), err)
	}
	snapshots := make([]check.Snapshot, 0, len(list.Items))
	for i := range list.Items {
		one := etcdCluster{connection: c, name: list.Items[i].Name}
		one.namespace = list.Items[i].Namespace
		snapshots = append(snapshots, one.snapshot(ctx, &list.Items[i]))
	}
	return snapshots, nil
}

// snapshot is what the status of a Kafka shows. What cannot be read is said in it, so that it hides no other cluster.
func (c cluster) snapshot(ctx context.Context, kafka *kafkav1.Kafka) check.Snapshot {
	report, err := c.status(ctx, kafka)
	s := check.Snapshot{
		Namespace: c.namespace, Object: c.String(), Look: c.see(),
		Conditions: kafkaConditions(report.Conditions), Unread: report.Message,
	}
	if err != nil {
		s.Unread = fmt.Sprintf("its certificates cannot be read: %v", err)
	}
	if users := report.Users; users != nil {
		s.Users = check.Users{Total: int(users.Total), Ready: int(users.Ready)}
	}
	for i := range report.Domains {
		domain := &report.Domains[i]
		s.Rotations = append(s.Rotations, check.Rotation{CA: called(domain.Domain), Phase: domain.Phase, Message: domain.Message})
		s.Certificates = append(s.Certificates, caCertificates(kafka, domain)...)
		if domain.Domain == string(authorities.Cluster) {
			s.Certificates = slices.Concat(s.Certificates, memberCertificates(kafka, domain.Members), listenerCertificates(kafka, c.clock.Now()))
			s.Restarts = restarts(domain.Members)
		} else {
			s.Certificates = append(s.Certificates, userCertificates(kafka, domain)...)
		}
	}
	return s
}

func kafkaConditions(conditions []condition.Condition) []check.Condition {
	list := make([]check.Condition, 0, len(conditions))
	for _, c := range conditions {
		since, err := time.Parse(time.RFC3339, c.LastTransitionTime)
		if err != nil {
			since = time.Time{} // another writer left it out
		}
		list = append(list, check.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: since})
	}
	return list
}

// renewalOf is how long before their end the CA of a domain and what it signs are renewed.
func renewalOf(kafka *kafkav1.Kafka, domain string) time.Duration {
	ca := kafka.Spec.ClusterCa
	if domain == string(authorities.Clients) {
		ca = kafka.Spec.ClientsCa
	}
	return model.CASpec(ca).Usable().Renewal()
}

// caCertificates are those of one CA. The end of one that is to go is meant: applications may still present what it signed.
func caCertificates(kafka *kafkav1.Kafka, domain *rotation.Status) []check.Certificate {
	var list []check.Certificate
	for i := range domain.Anchors {
		a := &domain.Anchors[i]
		if a.State == trust.Absent && !a.Issuing {
			continue
		}
		c := check.Certificate{
			Name:     fmt.Sprintf("%s certificate %s (%s)", called(domain.Domain), cmp.Or(a.Name, "?"), rotation.Short(a.ID)),
			NotAfter: a.NotAfter, Renewer: check.ByOperator, Renewal: renewalOf(kafka, domain.Domain),
		}
		switch {
		case !a.Issuing:
			c.Renewer, c.Remedy = check.OnRequest, "It is not renewed. Have clients present certificates of the new CA before then."
		case caSource(kafka, domain.Domain) != authority.Generated:
			c.Renewer, c.Remedy = check.ByOwner, "Renew it where it comes from, and update its Secret: see docs/certificates.md and docs/cert-manager.md."
		}
		list = append(list, c)
	}
	return list
}

// memberCertificates are those that nodes, companions and the operator present. How long an issuer of cert-manager lets
// them last is not known, so that only their end counts.
func memberCertificates(kafka *kafkav1.Kafka, members []rotation.MemberStatus) []check.Certificate {
	domain := string(authorities.Cluster)
	renewal := renewalOf(kafka, domain)
	if caSource(kafka, domain) == authority.Outside {
		renewal = 0
	}
	var list []check.Certificate
	for i := range members {
		m := &members[i]
		if m.Facts.LeafNotAfter.IsZero() {
			continue
		}
		list = append(list, check.Certificate{
			Name: strings.TrimSpace("certificate of " + memberName(m)), NotAfter: m.Facts.LeafNotAfter, Renewer: check.ByOperator, Renewal: renewal,
		})
	}
	return list
}

func memberName(m *rotation.MemberStatus) string {
	if m.Kind == "" || m.Kind == string(m.Name) {
		return "the " + string(m.Name)
	}
	return m.Kind + " " + string(m.Name)
}

// listenerCertificates are those that listeners present from Secrets of their own. Of other listeners the status has the
// CA, in as many entries as it has certificates.
func listenerCertificates(kafka *kafkav1.Kafka, now time.Time) []check.Certificate {
	renewal := renewalOf(kafka, string(authorities.Cluster))
	var list []check.Certificate
	for i := range kafka.Status.Listeners {
		listener := &kafka.Status.Listeners[i]
		if len(listener.Certificates) != 1 {
			continue
		}
		chain, err := pki.ParseBundle([]byte(listener.Certificates[0]))
		if err != nil || len(chain) == 0 || chain[0].IsCA {
			continue
		}
		presented := listenercert.Checked{Chain: chain}
		end := presented.End(now)
		list = append(list, check.Certificate{
			Name: "certificate of listener " + listener.Name, Of: check.Listener, NotAfter: end,
			Renewer: check.ByOwner, Renewal: end.Sub(presented.Overdue(renewal, now)),
			Remedy: "Replace it in the Secret that brokerCertChainAndKey of the listener names.",
		})
	}
	return list
}

// userCertificates is the oldest certificate of a KafkaUser. The status has its begin; its end is that of the clients CA's
// settings, which a KafkaUser may change for itself.
func userCertificates(kafka *kafkav1.Kafka, domain *rotation.Status) []check.Certificate {
	users := kafka.Status.Users
	if users == nil || users.Oldest == nil || caSource(kafka, domain.Domain) == authority.Outside {
		return nil
	}
	end := users.Oldest.Add(model.CASpec(kafka.Spec.ClientsCa).Usable().Validity())
	for i := range domain.Anchors {
		if a := &domain.Anchors[i]; a.Issuing && a.NotAfter.Before(end) {
			end = a.NotAfter
		}
	}
	return []check.Certificate{{
		Name: "oldest certificate of a KafkaUser (by validityDays of the clients CA)", NotAfter: end, Renewer: check.OnRequest,
		Renewal: renewalOf(kafka, domain.Domain),
	}}
}

func restarts(members []rotation.MemberStatus) []check.Restart {
	var list []check.Restart
	for i := range members {
		if due := members[i].Facts.RestartDue; !due.IsZero() {
			list = append(list, check.Restart{Node: string(members[i].Name), Due: due})
		}
	}
	return list
}

// snapshot is what the status of an EtcdCluster shows.
func (c etcdCluster) snapshot(ctx context.Context, etcd *etcdv1beta2.EtcdCluster) check.Snapshot {
	report, err := c.report(ctx, etcd)
	s := check.Snapshot{
		Namespace: c.namespace, Object: etcdPrefix + c.name, Unread: report.unread,
		Look: fmt.Sprintf("%s status %s%s -n %s", c.program, etcdPrefix, c.name, c.namespace),
	}
	if err != nil {
		s.Unread = fmt.Sprintf("its certificates cannot be read: %v", err)
	}
	for i := range report.Conditions {
		has := &report.Conditions[i]
		s.Conditions = append(s.Conditions, check.Condition{
			Type: has.Type, Status: string(has.Status), Reason: has.Reason, Message: has.Message, Since: has.LastTransitionTime.Time,
		})
	}
	for _, ca := range report.CAs {
		s.Certificates = append(s.Certificates, check.Certificate{
			Name: fmt.Sprintf("%s CA certificate %s", ca.Plane, ca.Subject), NotAfter: ca.end, Renewer: check.ByOperator, Renewal: ca.renewal,
		})
	}
	for i := range report.Members {
		for _, presented := range report.Members[i].Certificates {
			if !presented.end.IsZero() {
				s.Certificates = append(s.Certificates, check.Certificate{
					Name: fmt.Sprintf("%s certificate of member %s", presented.Plane, report.Members[i].Name), NotAfter: presented.end,
					Renewer: check.ByOperator, Renewal: presented.renewal,
				})
			}
		}
	}
	return s
}
