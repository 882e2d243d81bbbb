package scenarios

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// etcdCreated is the first day of a cluster with one member, and of a cluster of the same
// name with three: keys are made in the pods and nowhere else, and members serve clients of
// the cluster's client CA alone.
func etcdCreated(s *stage) {
	s.fromScratch()
	s.operatorForEtcdWith(map[string]any{"enabled": true, "access": map[string]any{"enabled": true}})
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	application := types.NamespacedName{Namespace: etcd.Namespace, Name: "my-app"}
	search := etcd.KeySearch(application)
	var before pki.Fingerprint
	for _, size := range []int32{1, 3} {
		what := fmt.Sprintf("%d members", size)
		begun := time.Now()
		s.step(what+" created", func() error {
			if err := etcd.Create(s.ctx, size); err != nil {
				return err
			}
			return etcd.UntilReady(s.ctx)
		})
		s.took(begun, what+" ready", "from the creation of the EtcdCluster until it is Ready; the first time includes loading images")
		members := s.allVote(etcd, int(size))
		s.step(what+" serve", func() error { return serve(s.ctx, etcd, members) })
		s.step(what+" refuse", func() error { return s.refuse(etcd, members) })
		s.step(what+" report what they present", func() error { return reportLoaded(s.ctx, etcd, members) })
		s.keysStayPut(search)

		ca, err := etcd.CA(s.ctx, contract.ClientPlane)
		s.must(err)
		if now := pki.FingerprintOf(ca.Certificate()); now == before {
			s.Errorf("the client CA %s of a deleted cluster signs for another one", now.Short())
		} else {
			before = now
		}
		if size > 1 {
			s.plantedKeyIsFound(etcd)
			s.etcdByThePlugin(etcd, application)
		}
		s.step(what+" deleted", func() error { return etcd.Delete(s.ctx) })
		s.keysStayPut(search)
		if left, err := etcd.Private(s.ctx); err != nil || len(left) > 0 {
			s.Errorf("Secrets %v of the deleted cluster are left in the operator's namespace: %v", left, err)
		}
	}
}

// etcdByThePlugin has the plugin probe a cluster as an application, and plan a replacement of its client CA.
func (s *stage) etcdByThePlugin(etcd harness.Etcd, application types.NamespacedName) {
	s.Helper()
	const duration = 5 * time.Second
	s.must(s.kube.Create(s.ctx, &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: application.Name},
		Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: etcd.Name, Namespace: etcd.Namespace}},
	}))
	s.step("an application has credentials", func() error { return s.untilAccess(application, model.SecretReady) })
	s.step("a probe is harmed by nothing", func() error { return etcd.Probe(s.ctx, application.Name, duration) })
	s.plansOneRestart(etcd, contract.ClientPlane)
}

// plansOneRestart holds that a plan for another key of a CA has one restart of each of three members.
func (s *stage) plansOneRestart(etcd harness.Etcd, plane contract.Plane) {
	s.Helper()
	s.step("a plan foretells one restart of each member", func() error {
		planned, err := etcd.PlannedRestarts(s.ctx, "--replace", string(plane)+"-ca")
		if one := slices.Repeat([]int{1}, 3); err == nil && !slices.Equal(slices.Collect(maps.Values(planned)), one) {
			s.Errorf("the plan says that members are restarted so often: %v", planned)
		}
		return err
	})
}

// reportLoaded compares what the status says that members have loaded with what they present to a client.
func reportLoaded(ctx context.Context, etcd harness.Etcd, members []string) error {
	loaded, err := etcd.Loaded(ctx)
	if err != nil {
		return err
	}
	for _, member := range members {
		leaf, err := etcd.Presented(ctx, member)
		if err != nil {
			return err
		}
		isReported := slices.ContainsFunc(loaded[member], func(plane etcdv1beta2.LoadedPlane) bool {
			return plane.Plane == string(contract.ClientPlane) && plane.Presents == pki.FingerprintOf(leaf).String()
		})
		if len(loaded[member]) != len(contract.Planes()) || !isReported {
			return fmt.Errorf("member %s presents %s to clients, and the status says %+v", member, pki.FingerprintOf(leaf), loaded[member])
		}
	}
	return nil
}

// operatorForEtcd switches the controllers of etcd on, until the scenario has ended.
func (s *stage) operatorForEtcd() {
	s.Helper()
	s.operatorForEtcdWith(map[string]any{"enabled": true})
}

// operatorForEtcdWith is operatorForEtcd with other values of the chart's etcd.
func (s *stage) operatorForEtcdWith(values map[string]any) {
	s.Helper()
	s.Cleanup(func() {
		if err := s.kube.Install(context.WithoutCancel(s.ctx), s.journal); err != nil {
			s.Error(err)
		}
	})
	s.must(s.kube.InstallWith(s.ctx, s.journal, map[string]any{"etcd": values}))
}

// allVote holds that the status and etcd itself have so many members that vote, and returns
// their names.
func (s *stage) allVote(etcd harness.Etcd, size int) []string {
	s.Helper()
	resource, err := etcd.Resource(s.ctx)
	s.must(err)
	names := []string{}
	for _, member := range resource.Status.MemberStatuses {
		if member.Role != etcdv1beta2.RoleVoter || !member.Ready || member.PodUID == "" || member.MemberID == "" {
			s.Errorf("the status has member %+v, to be is a voter that is ready", member)
		}
		names = append(names, member.Name)
	}
	slices.Sort(names)
	if len(names) != size || len(resource.Status.Members.Ready) != size || len(resource.Status.Members.Unready) > 0 {
		s.Fatalf("the status has members %v, of them ready %v, not ready %v; to be are %d that are ready",
			names, resource.Status.Members.Ready, resource.Status.Members.Unready, size)
	}
	var known []string
	s.must(as(s.ctx, etcd, names[0], func(ctx context.Context, client *clientv3.Client) error {
		response, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, member := range response.Members {
			if member.IsLearner {
				s.Errorf("etcd has %s as a learner", member.Name)
			}
			known = append(known, member.Name)
		}
		return nil
	}))
	slices.Sort(known)
	if !slices.Equal(known, names) {
		s.Errorf("etcd has members %v, and the status %v", known, names)
	}
	return names
}

// questionLimit bounds one question to etcd.
const questionLimit = 15 * time.Second

// as does something with a member as the operator's client.
func as(ctx context.Context, etcd harness.Etcd, member string, do func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	identity, err := etcd.Operator(ctx)
	if err != nil {
		return err
	}
	client, err := etcd.Client(ctx, member, identity)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := do(ctx, client); err != nil {
		return fmt.Errorf("asking member %s: %w", member, err)
	}
	return nil
}

// serve writes a key by each member, and reads all of them by each member.
func serve(ctx context.Context, etcd harness.Etcd, members []string) error {
	const prefix = "scenario/"
	for _, member := range members {
		if err := as(ctx, etcd, member, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Put(ctx, prefix+member, member)
			return err
		}); err != nil {
			return err
		}
	}
	for _, member := range members {
		if err := as(ctx, etcd, member, func(ctx context.Context, client *clientv3.Client) error {
			response, err := client.Get(ctx, prefix, clientv3.WithPrefix())
			if err != nil {
				return err
			}
			var values []string
			for _, pair := range response.Kvs {
				values = append(values, string(pair.Value))
			}
			if slices.Sort(values); !slices.Equal(values, members) {
				return fmt.Errorf("it has %v, written were %v", values, members)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// refuse holds that each member accepts a client of the client CA, and neither one of the
// peer CA nor one without a certificate.
func (s *stage) refuse(etcd harness.Etcd, members []string) error {
	operator, err := etcd.Operator(s.ctx)
	if err != nil {
		return err
	}
	byPlane := map[contract.Plane]*tls.Config{}
	for _, plane := range contract.Planes() {
		ca, err := etcd.CA(s.ctx, plane)
		if err != nil {
			return err
		}
		certificate, err := clientOf(ca)
		if err != nil {
			return err
		}
		byPlane[plane] = operator.Clone()
		byPlane[plane].Certificates = []tls.Certificate{certificate}
	}
	none := operator.Clone()
	none.Certificates = nil
	for _, member := range members {
		for _, c := range []struct {
			client  string
			config  *tls.Config
			accepts bool
		}{
			{"a client of the client CA", byPlane[contract.ClientPlane], true},
			{"a client of the peer CA", byPlane[contract.PeerPlane], false},
			{"a client without a certificate", none, false},
		} {
			accepts, err := etcd.Accepts(s.ctx, member, contract.ClientPlane, c.config)
			if err != nil {
				return fmt.Errorf("connecting to member %s as %s: %w", member, c.client, err)
			}
			if accepts != c.accepts {
				s.Errorf("member %s accepts %s: %t", member, c.client, accepts)
			}
		}
	}
	return nil
}

// clientOf is a certificate for a client by the CA.
func clientOf(ca pki.Authority) (tls.Certificate, error) { return leafOf(ca, pki.ClientAuth) }

// leafOf is a certificate by the CA without names, presented with others.
func leafOf(ca pki.Authority, usage pki.Usage, presented ...pki.Authority) (tls.Certificate, error) {
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "scenario"}, Usages: []pki.Usage{usage}, Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}
	for _, above := range presented {
		certificate.Certificate = append(certificate.Certificate, above.Certificate().Raw)
	}
	return certificate, nil
}
