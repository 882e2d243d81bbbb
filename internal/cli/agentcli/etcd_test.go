package agentcli

import (
	"bytes"
	"strings"
	"testing"
)

func TestEtcdAgentRefusesWhatItCannotRunOn(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, c := range map[string]struct {
		arguments []string
		says      string
	}{
		"no command":            {nil, "requires at least 1 arg"},
		"an unknown algorithm":  {[]string{"--key-algorithm=DSA", "--", "etcd"}, "--key-algorithm must be ECDSA or RSA"},
		"no account of the pod": {[]string{"--", "etcd", "--name=my-cluster-0"}, "reading the pod's account"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := Main(append([]string{"keyturn-agent", "etcd"}, c.arguments...), &stdout, &stderr)
			if code != exitFailed || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("exit code %d, %q; want something about %q", code, stderr.String(), c.says)
			}
		})
	}
}
