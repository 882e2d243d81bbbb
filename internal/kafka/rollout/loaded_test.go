package rollout_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	tls         publication.Role = "tls-9093"
	mtls        publication.Role = "mtls-9094"
	replication publication.Role = "replication-9091"
)

// certificate returns one that is different for each name. Only its bytes count.
func certificate(name string) *x509.Certificate { return &x509.Certificate{Raw: []byte(name)} }

func fingerprint(name string) string { return pki.FingerprintOf(certificate(name)).String() }

// publishedTo is what a node with an own certificate on the listener tls is to load.
func publishedTo() publication.Publication {
	trusts := []string{"cluster", "cluster before"}
	return publication.Next(publication.Publication{}, 0, publication.Content{
		Leaves: map[string]*x509.Certificate{
			publication.NodeIdentity: certificate("leaf"), string(tls): certificate("custom"),
		},
		Chain: []*x509.Certificate{certificate("cross")},
		Trust: map[publication.Role][]string{
			publication.AgentRole: trusts, replication: trusts, tls: {"clients"}, mtls: {"clients"},
		},
	}, time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC))
}

func stores() []publication.Store {
	return []publication.Store{
		{Role: replication, Identity: publication.NodeIdentity, Trust: "cluster"},
		{Role: tls, Identity: string(tls), Trust: "clients"},
		{Role: mtls, Identity: publication.NodeIdentity, Trust: "clients"},
	}
}

// loaded is the report of a server that has loaded what is published.
func loaded(published publication.Publication) publication.Report {
	report := publication.Report{Revision: published.Revision, Roles: map[publication.Role]publication.RoleReport{}}
	for _, store := range stores() {
		report.Roles[store.Role] = publication.RoleReport{
			Presents: published.Identities[store.Identity], Chain: published.Chain, Trusts: published.Trust[store.Role],
		}
	}
	return report
}

func TestANodeIsRestartedForWhatItHasNotLoaded(t *testing.T) {
	t.Parallel()
	published := publishedTo()
	set := func(listener publication.Role, change func(*publication.RoleReport)) func(publication.Report) {
		return func(report publication.Report) {
			role := report.Roles[listener]
			role.Trusts = slices.Clone(role.Trusts)
			change(&role)
			report.Roles[listener] = role
		}
	}
	presents := func(name string) func(*publication.RoleReport) {
		return func(role *publication.RoleReport) { role.Presents = fingerprint(name) }
	}
	trusts := func(names ...string) func(*publication.RoleReport) {
		return func(role *publication.RoleReport) {
			role.Trusts = names
		}
	}
	type reasons = []rollout.Reason
	for name, c := range map[string]struct {
		changes []func(publication.Report)
		want    reasons
	}{
		"everything is loaded": {},
		"anchors in another order are the same": {
			changes: []func(publication.Report){set(replication, func(r *publication.RoleReport) { slices.Reverse(r.Trusts) })},
		},
		"an older leaf": {
			changes: []func(publication.Report){set(replication, presents("leaf before"))},
			want:    reasons{{Code: rollout.CertificatesChanged, Note: "listener replication-9091 presents an older certificate"}},
		},
		"an older leaf on two listeners is one reason": {
			changes: []func(publication.Report){
				set(replication, presents("leaf before")), set(mtls, presents("leaf before")),
			},
			want: reasons{{Code: rollout.CertificatesChanged, Note: "listener replication-9091 presents an older certificate"}},
		},
		"an older custom certificate": {
			changes: []func(publication.Report){set(tls, presents("custom before"))},
			want:    reasons{{Code: rollout.CertificatesChanged, Note: "listener tls-9093 presents an older certificate"}},
		},
		"the node's leaf where the custom certificate belongs": {
			changes: []func(publication.Report){set(tls, presents("leaf"))},
			want:    reasons{{Code: rollout.CertificatesChanged, Note: "listener tls-9093 presents an older certificate"}},
		},
		"a new anchor is not trusted yet": {
			changes: []func(publication.Report){set(replication, trusts("cluster before"))},
			want:    reasons{{Code: rollout.AuthorityRenewed, Note: "listener replication-9091 does not trust a new CA yet"}},
		},
		"a withdrawn anchor is still trusted": {
			changes: []func(publication.Report){set(mtls, trusts("clients", "clients before"))},
			want:    reasons{{Code: rollout.TrustRemoved, Note: "listener mtls-9094 still trusts a withdrawn CA"}},
		},
		"one anchor was replaced by another": {
			changes: []func(publication.Report){set(mtls, trusts("clients before"))},
			want: reasons{
				{Code: rollout.AuthorityRenewed, Note: "listener mtls-9094 does not trust a new CA yet"},
				{Code: rollout.TrustRemoved, Note: "listener mtls-9094 still trusts a withdrawn CA"},
			},
		},
		"a listener that did not exist when the server started": {
			changes: []func(publication.Report){func(report publication.Report) { delete(report.Roles, tls) }},
			want:    reasons{{Code: rollout.PodSpecChanged, Note: "listener tls-9093 has loaded no stores"}},
		},
		"a listener that is gone is no reason of its own": {
			changes: []func(publication.Report){func(report publication.Report) { report.Roles["old-9095"] = publication.RoleReport{} }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := loaded(published)
			for _, change := range c.changes {
				change(report)
			}
			if diff := cmp.Diff(c.want, rollout.LoadReasons(published, stores(), report)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}
