package cli

import (
	"bytes"
	"testing"
)

func TestErrorsBeginWithWhatFailed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"as a plugin of kubectl": {[]string{"/usr/bin/kubectl-keyturn", "plan", "kafka/my", "--replace", "etcd"}, "\"etcd\" is neither cluster-ca nor clients-ca\n"},
		"with an unknown flag":   {[]string{"kubectl-keyturn", "plan", "--upside-down"}, "unknown flag: --upside-down\n"},
		"by its own name":        {[]string{"keyturn", "plan", "--upside-down"}, "unknown flag: --upside-down\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err bytes.Buffer
			if code := Main(test.args, &out, &err); code != 1 || err.String() != test.want || out.Len() > 0 {
				t.Errorf("it ends with %d and says %q, want %q", code, err.String(), test.want)
			}
		})
	}
}
