package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

func config() contract.Config {
	return contract.Config{
		Cluster: "my-cluster", Namespace: "kafka", PodName: "my-cluster-pool-0", NodeID: 0,
		Roles:    []string{contract.RoleBroker},
		Stores:   []publication.Store{{Role: "tls-9093", Identity: "tls-9093", Trust: contract.ClientsDomain}},
		DataDirs: []string{"/var/lib/kafka/data/kafka-log0"}, JavaOptions: []string{"-Xmx1g"}, GraceSeconds: 30,
	}
}

func TestConfigIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	data, err := config().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config(), got); diff != "" {
		t.Errorf("configuration (-written +read):\n%s", diff)
	}
	if got.Grace() != 30*time.Second {
		t.Errorf("grace %s, want 30s", got.Grace())
	}
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.Config){
		"without a pod":            func(c *contract.Config) { c.PodName = "" },
		"without a role":           func(c *contract.Config) { c.Roles = []string{"observer"} },
		"without a data directory": func(c *contract.Config) { c.DataDirs = nil },
		"with a negative grace":    func(c *contract.Config) { c.GraceSeconds = -1 },
		"with a nameless store":    func(c *contract.Config) { c.Stores[0].Role = "" },
		"with an unknown domain":   func(c *contract.Config) { c.Stores[0].Trust = "everybody" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := config()
			change(&bad)
			data, err := bad.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := contract.ParseConfig(data); err == nil {
				t.Errorf("read as %+v, want an error", got)
			}
		})
	}
}

func TestNodeListensOnTheControlPlaneOnlyAsAController(t *testing.T) {
	t.Parallel()
	broker, both := config(), config()
	both.Roles = append(both.Roles, contract.RoleController)
	if broker.ListensOn(contract.ControlPlaneListener) || !broker.ListensOn(contract.ReplicationListener) || !both.ListensOn(contract.ControlPlaneListener) {
		t.Error("a broker is said to listen on the control plane, or a controller not to")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"podName":"p","roles":["broker"],"dataDirs":["/d"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := contract.ParseConfig(data)
		if err == nil && (c.PodName == "" || len(c.DataDirs) == 0) {
			t.Errorf("accepted %+v", c)
		}
	})
}
