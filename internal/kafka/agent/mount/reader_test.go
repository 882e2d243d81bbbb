package mount_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

func TestVolumesAreRead(t *testing.T) {
	t.Parallel()
	want := stores.Mounted{
		Node:         stores.Directory{"node.crt": []byte("leaf"), "node.key": []byte("key")},
		ClusterTrust: stores.Directory{"a.crt": []byte("anchor")},
		ClientsTrust: stores.Directory{"b.crt": []byte("other anchor")},
		Config:       stores.Directory{"agent.json": []byte("{}")},
		Pod:          stores.Directory{"annotations": []byte("a=\"b\"")},
	}
	got, _, err := mount.NewReader(agenttest.WriteMounts(t, t.TempDir(), want)).Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounted (-written +read):\n%s", diff)
	}
}
