package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/cli"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

// environment is an API server that all tests of the package share.
var environment *envtest.Environment

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		environment = server
		return m.Run()
	}))
}

// namespace holds a Kafka "my-cluster" with what an operator would have made of it.
type namespace struct {
	t     *testing.T
	name  string
	admin client.Client
}

func newNamespace(t *testing.T) namespace {
	t.Helper()
	admin := kubetest.Connect(t, environment.Config, kafkav1.AddToScheme)
	n := namespace{t: t, name: kubetest.Namespace(t, admin, "cli-"), admin: admin}
	n.create(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "my-cluster"}, Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{
		Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: "internal", TLS: true}},
	}}})
	record := rotationtest.AtRest(3, func(r *rotation.Record) { r.Cluster, r.Versions = "my-cluster", map[string]string{} })
	for _, name := range []string{"my-cluster-cluster-ca", "my-cluster-cluster-ca-cert"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"strimzi.io/cluster": "my-cluster"}},
			Data:       map[string][]byte{"ca.key": []byte("not to be seen")},
		}
		n.create(secret)
		record.Versions["Secret "+name] = secret.ResourceVersion
	}
	encoded, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: rotation.ConfigMapName("my-cluster")}, BinaryData: map[string][]byte{rotation.Key(string(authorities.Cluster)): encoded},
	})
	return n
}

func (n namespace) create(object client.Object) {
	n.t.Helper()
	object.SetNamespace(n.name)
	if err := n.admin.Create(n.t.Context(), object); err != nil {
		n.t.Fatal(err)
	}
}

// documented are the rules that docs/rotation.md tells people to grant: those for
// looking, and those that rotating takes in addition.
func documented(t *testing.T) (look, rotate []rbacv1.PolicyRule) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rotation.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")
	if len(blocks) != 3 {
		t.Fatalf("docs/rotation.md has %d pieces of YAML, want 2", len(blocks)-1)
	}
	var role rbacv1.Role
	for i, into := range []any{&role, &rotate} {
		text, _, _ := strings.Cut(blocks[i+1], "```")
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return role.Rules, rotate
}

// person is somebody with rules in the namespace, who calls the command line.
type person struct {
	t          *testing.T
	kubeconfig string
	namespace  string
}

func (n namespace) person(name string, rules ...rbacv1.PolicyRule) person {
	n.t.Helper()
	n.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	n.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name + "-" + n.name}},
	})
	user, err := environment.AddUser(envtest.User{Name: name + "-" + n.name}, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	config, err := user.KubeConfig()
	if err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(n.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		n.t.Fatal(err)
	}
	return person{t: n.t, kubeconfig: path, namespace: n.name}
}

// call runs a command as the person would, and returns what it says and its exit
// code.
func (p person) call(args ...string) (text string, code int) {
	p.t.Helper()
	var out bytes.Buffer
	args = append([]string{"kubectl-keyturn"}, args...)
	code = cli.Plugin(append(args, "--kubeconfig", p.kubeconfig, "--namespace", p.namespace), &out, &out, nil)
	if strings.Contains(out.String(), "not to be seen") {
		p.t.Errorf("%s shows key material:\n%s", args, out.String())
	}
	return out.String(), code
}

func TestViewerSeesEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	look, _ := documented(t)
	viewer := n.person("viewer", look...)
	if text, code := viewer.call("status", "kafka/my-cluster"); code != 0 || !strings.Contains(text, "cluster-ca v0") {
		t.Errorf("status ends with %d:\n%s", code, text)
	}
	if text, code := viewer.call("plan", "kafka/my-cluster", "--replace", "cluster-ca"); code != 0 ||
		!strings.Contains(text, "Clients affected during the rotation: none") || !strings.Contains(text, "You may not read Secret my-cluster-cluster-ca") {
		t.Errorf("plan ends with %d:\n%s", code, text)
	}
	if text, code := viewer.call("rotate", "kafka/my-cluster", "--cluster-ca"); code != 1 ||
		!strings.Contains(text, "you need the right to get and patch Secret my-cluster-cluster-ca in namespace "+n.name) {
		t.Errorf("rotate ends with %d:\n%s", code, text)
	}
	if asked := n.annotations("my-cluster-cluster-ca"); len(asked) > 0 {
		t.Errorf("annotations %v, want none", asked)
	}
}

func TestWhoMayRotateAsksOnce(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	look, rotate := documented(t)
	rotator := n.person("rotator", slices.Concat(look, rotate)...)
	if text, code := rotator.call("plan", "kafka/my-cluster", "--replace", "cluster-ca"); code != 0 || strings.Contains(text, "may not") || strings.Contains(text, "CHANGED") {
		t.Errorf("plan ends with %d:\n%s", code, text)
	}
	if text, code := rotator.call("rotate", "kafka/my-cluster", "--cluster-ca", "--replace", "--distrust"); code != 0 {
		t.Errorf("rotate ends with %d:\n%s", code, text)
	}
	asked := n.annotations("my-cluster-cluster-ca")
	if asked["strimzi.io/force-replace"] != "true" || asked["keyturn.dev/distrust"] != "now" || len(asked) != 2 {
		t.Errorf("annotations %v", asked)
	}
	if text, code := rotator.call("rotate", "kafka/my-cluster", "--cluster-ca", "--replace", "--distrust"); code != 2 || !strings.Contains(text, "nothing was changed") {
		t.Errorf("rotate once more ends with %d:\n%s", code, text)
	}
	if text, code := rotator.call("plan", "kafka/my-cluster", "--replace", "cluster-ca"); code != 0 || !strings.Contains(text, "CHANGED SINCE: Secret my-cluster-cluster-ca (") {
		t.Errorf("plan after it ends with %d:\n%s", code, text)
	}
	if text, code := rotator.call("rotate", "kafka/my-cluster", "--cluster-ca", "--renew"); code != 0 || n.annotations("my-cluster-cluster-ca-cert")["strimzi.io/force-renew"] != "true" {
		t.Errorf("rotate --renew ends with %d:\n%s", code, text)
	}
}

// annotations reads what stands on a Secret, and that its key is as it was.
func (n namespace) annotations(name string) map[string]string {
	n.t.Helper()
	secret := &corev1.Secret{}
	if err := n.admin.Get(n.t.Context(), client.ObjectKey{Namespace: n.name, Name: name}, secret); err != nil {
		n.t.Fatal(err)
	}
	if string(secret.Data["ca.key"]) != "not to be seen" {
		n.t.Errorf("the key in Secret %s has changed", name)
	}
	return secret.Annotations
}
