package authority_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// brings is a cluster with a CA of the user's that trusts other CAs so far.
func brings(tb testing.TB, kind authorities.Kind, ca pki.Authority, trusted ...pki.Authority) *world {
	tb.Helper()
	w, _ := userWorld(tb)
	w.in.Names = kind.Names("my")
	w.in.KeySecret.Data = map[string][]byte{"ca.key": ca.Key().PEM()}
	w.in.CertSecret.Data = map[string][]byte{"ca.crt": pki.EncodeBundle(ca.Certificate())}
	for _, before := range trusted {
		w.trusts(before.Certificate())
	}
	return w
}

func TestOneCAForNodesAndUsersIsRefused(t *testing.T) {
	t.Parallel()
	ca, apart := pkitest.CA(t, "corporate", noon()), pkitest.CA(t, "apart", noon())
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 300*day, noon())
	if err != nil {
		t.Fatal(err)
	}
	below := pkitest.Limited(t, ca, pkitest.CA(t, "users", noon()))
	between := pkitest.Changed(t, ca, pkitest.CA(t, "between", noon()), func(*x509.Certificate) {})
	lower := pkitest.Changed(t, between, pkitest.CA(t, "lower", noon()), func(*x509.Certificate) {})
	chained := brings(t, authorities.Clients, lower)
	chained.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(lower.Certificate(), between.Certificate(), ca.Certificate())
	for name, c := range map[string]struct {
		cluster, clients *world
		want             authorities.Kind
		how              string
	}{
		"the same certificate":             {brings(t, authorities.Cluster, ca), brings(t, authorities.Clients, ca), authorities.Clients, "has the key of"},
		"two certificates of one key":      {brings(t, authorities.Cluster, ca), brings(t, authorities.Clients, renewed), authorities.Clients, "has the key of"},
		"the clients CA is below":          {brings(t, authorities.Cluster, ca), brings(t, authorities.Clients, below), authorities.Clients, "was signed by"},
		"an intermediate is between them":  {brings(t, authorities.Cluster, ca), chained, authorities.Clients, "was signed by"},
		"both have had it for long":        {brings(t, authorities.Cluster, ca, ca), brings(t, authorities.Clients, ca, ca), authorities.Clients, "has the key of"},
		"users have had it, and nodes not": {brings(t, authorities.Cluster, ca, apart), brings(t, authorities.Clients, ca, ca), authorities.Cluster, "has the key of"},
		"nodes have had it, and users not": {brings(t, authorities.Cluster, ca, ca), brings(t, authorities.Clients, ca, apart), authorities.Clients, "has the key of"},
		"they are apart":                   {brings(t, authorities.Cluster, ca), brings(t, authorities.Clients, apart), "", ""},
		"the cluster CA is below":          {brings(t, authorities.Cluster, below), brings(t, authorities.Clients, ca), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, problem := authority.CheckApart(c.cluster.in, c.clients.in, c.cluster.decide(), c.clients.decide())
			if problem == nil {
				if c.want != "" {
					t.Fatalf("nothing is refused, want %q", c.want)
				}
				return
			}
			kind := authorities.Of(refused)
			if kind != c.want {
				t.Fatalf("%q is refused (%v), want %q", kind, problem, c.want)
			}
			for _, word := range []string{kind.CertSecret("my"), c.how, "user certificate", "keyturn.dev/allow-shared-ca=true"} {
				if !strings.Contains(problem.String(), word) {
					t.Errorf("%q is missing in %q", word, problem)
				}
			}
		})
	}
}

func TestAFurtherClientsCAThatIsTheClusterCAIsRefused(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "corporate", noon())
	nodes, users := brings(t, authorities.Cluster, ca), brings(t, authorities.Clients, pkitest.CA(t, "users", noon()))
	users.in.CertSecret.Data["more.crt"] = pki.EncodeBundle(ca.Certificate())
	if refused, _ := authority.CheckApart(nodes.in, users.in, nodes.decide(), users.decide()); refused != authority.Users {
		t.Errorf("%q is refused, want the clients CA", refused)
	}
}

func TestACAThatAnIssuerAnnouncesForNodesAndIsTheClientsCAIsRefusedBeforeItIsTrusted(t *testing.T) {
	t.Parallel()
	ca, users := pkitest.CA(t, "company", noon()), pkitest.CA(t, "users", noon())
	for name, bundle := range map[string][]*x509.Certificate{
		"first": certificatesOf(users, ca), "last": certificatesOf(ca, users),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, clients := outsideWorld(t, ca), brings(t, authorities.Clients, users, users)
			nodes.step()
			nodes.runsOutside()
			apart := func() authority.Holders {
				refused, _ := authority.CheckApart(nodes.in, clients.in, nodes.decide(), clients.decide())
				return refused
			}
			nodes.brings(bundle...)
			if refused := apart(); refused != authority.Members {
				t.Errorf("%q is refused, want the cluster CA", refused)
			}
			nodes.brings(ca.Certificate())
			if refused := apart(); refused != "" {
				t.Errorf("%q is refused after it was taken out again", refused)
			}
		})
	}
}
