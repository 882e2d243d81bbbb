package apitest

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// apiServer is the connection that all tests of the package share. Each test has a namespace of its own.
var (
	apiServer *rest.Config
	shared    clients
	connected sync.Once
	// authorities are the CAs of clusters, by name.
	authorities = map[string]pki.Authority{}
)

// clients are those of a person, who may do everything, and of the access operator.
type clients struct {
	person, operator client.Client
	// asOperator is the configuration of the operator's client.
	asOperator *rest.Config
}

func TestMain(m *testing.M) {
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		if err := makeAuthorities(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		apiServer = server.Config
		return m.Run()
	}))
}

// makeAuthorities makes them once: tests compare what they copy.
func makeAuthorities() error {
	for name, from := range map[string]time.Time{"before": now(), "first": now(), "second": now(), "expired": now().AddDate(-2, 0, 0)} {
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{Organization: "example", CommonName: name},
			Key:     pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: 365 * 24 * time.Hour, Now: from,
		})
		if err != nil {
			return fmt.Errorf("making CA %s: %w", name, err)
		}
		authorities[name] = ca
	}
	return nil
}

// caOf are the certificates of CAs in PEM.
func caOf(names ...string) string {
	certificates := make([]*x509.Certificate, 0, len(names))
	for _, name := range names {
		certificates = append(certificates, authorities[name].Certificate())
	}
	return string(pki.EncodeBundle(certificates...))
}

// connect makes the clients with the first test.
func connect(t *testing.T) clients {
	t.Helper()
	connected.Do(func() {
		options := client.Options{Scheme: newScheme(t)}
		var err error
		if shared.person, err = client.New(apiServer, options); err != nil {
			t.Fatal(err)
		}
		shared.asOperator = chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.AccessOperator)
		if shared.operator, err = client.New(shared.asOperator, options); err != nil {
			t.Fatal(err)
		}
	})
	return shared
}

// grant returns the configuration of a user with these rights everywhere.
func grant(t *testing.T, person client.Client, user string, rules []rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := person.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return kubetest.Scheme(t, kafkav1.AddToScheme, kafkav1beta2.AddToScheme, accessv1alpha1.AddToScheme)
}
