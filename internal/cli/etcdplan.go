package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcddomains "github.com/keyturn/keyturn/internal/etcd/domains"
	etcdmodel "github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/rotation"
)

// addOperatorNamespaceFlag adds the flag that says where the operator of etcd clusters keeps what no tenant may read.
func addOperatorNamespaceFlag(cmd *cobra.Command, namespace *string, what string) {
	cmd.Flags().StringVar(namespace, "operator-namespace", "keyturn", "of etcd: namespace of the operator, "+what)
}

// etcdDomains are the CAs of an etcd cluster, in the order in which they are shown.
func etcdDomains() []string {
	return []string{etcddomains.Recorded(contract.ClientPlane), etcddomains.Recorded(contract.PeerPlane)}
}

// planEtcd reads the records of an EtcdCluster, and plays what was asked about.
func (o *planOptions) planEtcd(ctx context.Context, c etcdCluster) (planReport, error) {
	report := planReport{Namespace: c.namespace, Cluster: c.name, Domains: []domainPlan{}, of: c.String()}
	etcd, err := c.etcd(ctx)
	if err != nil {
		return report, err
	}
	if etcdmodel.ModeOf(etcd.Spec.TLS) != etcdmodel.Dynamic {
		return report, c.refusedMode()
	}
	records, err := c.records(ctx, etcd.UID, o.operatorNamespace)
	if err != nil {
		return report, err
	}
	private := c.connection // the Secrets of CAs are where the operator is
	private.namespace = o.operatorNamespace
	for _, domain := range o.asked(etcdDomains()) {
		record, found := records[domain]
		if !found {
			return report, fmt.Errorf("planning for the %s: %w", called(domain), noRecordError{c.String(), c.see()})
		}
		plan, err := o.course(record, c.clock.Now())
		if err != nil {
			return report, err
		}
		plan.drift = private.since(ctx, record, nil)
		report.Domains = append(report.Domains, plan)
	}
	return report, nil
}

// records reads what the operator has recorded about the CAs, by domain. That of a cluster of the name before this one is none.
func (c etcdCluster) records(ctx context.Context, uid types.UID, operatorNamespace string) (map[string]rotation.Record, error) {
	name := etcdmodel.Names{Namespace: c.namespace, Cluster: c.name}.Record()
	stored := &corev1.ConfigMap{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: operatorNamespace, Name: name}, stored)
	switch {
	case apierrors.IsNotFound(err), err == nil && stored.Labels[etcdmodel.ClusterUIDLabel] != string(uid):
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w; --operator-namespace says where the operator is", operatorNamespace, name, noRecordError{c.String(), c.see()})
	case err != nil:
		return nil, withRights(fmt.Errorf("reading ConfigMap %s/%s: %w", operatorNamespace, name, err), "get configmaps in namespace "+operatorNamespace)
	}
	records := map[string]rotation.Record{}
	for _, plane := range contract.Planes() {
		domain := etcddomains.Recorded(plane)
		encoded, found := stored.BinaryData[rotation.Key(domain)]
		if !found {
			continue
		}
		if records[domain], err = etcddomains.Words(c.namespace, plane).Parse(encoded); err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", operatorNamespace, name, err)
		}
	}
	return records, nil
}
