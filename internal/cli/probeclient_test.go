package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/probe/application"
)

func TestExitCodeOfAProbeClientTellsHarmFromIgnorance(t *testing.T) {
	t.Parallel()
	stopped := fmt.Errorf("%w: waiting", application.ErrNotStarted)
	tests := map[string]struct {
		account application.Account
		err     error
		want    int
	}{
		"nothing was lost":                   {account: application.Account{Complete: true, Received: 9}, want: 0},
		"a record was lost":                  {account: application.Account{Complete: true, Lost: 1}, want: 3},
		"a record was given up":              {account: application.Account{Complete: true, GivenUp: 1}, want: 3},
		"a record came twice":                {account: application.Account{Complete: true, Duplicated: 1}, want: 3},
		"a connection was refused":           {account: application.Account{Complete: true, Refused: 1}, want: 3},
		"the topic was not read to its end":  {account: application.Account{Received: 9, Unread: 1}, want: 1},
		"it was stopped while it waited":     {err: stopped, want: 1},
		"it was refused and stopped":         {account: application.Account{Refused: 1}, err: stopped, want: 3},
		"refused, and not read to its end":   {account: application.Account{Refused: 1, Unread: 1}, want: 3},
		"the directory has never been there": {err: application.ErrNoDirectory, want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := 0
			if err := judgedClient(test.account, test.err); err != nil {
				got = exitCode(err)
			}
			if got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}

func TestProbeClientSaysWhatIsWrongWithItsFlags(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no directory":           {nil, "--secret-dir is missing: specify the directory where the Secret of the KafkaAccess is mounted\nSee 'keyturn probe client --help'.\n"},
		"a missing directory":    {[]string{"--secret-dir", none}, "directory " + none + " does not exist: mount the Secret of the KafkaAccess there, or name its directory with --secret-dir\n"},
		"no topic":               {[]string{"--secret-dir", none, "--topic", ""}, "--topic must not be empty\nSee 'keyturn probe client --help'.\n"},
		"no time between two":    {[]string{"--secret-dir", none, "--interval", "0s"}, "--interval and --report-every must be positive, for example 100ms and 10s\nSee 'keyturn probe client --help'.\n"},
		"fewer replicas than 0":  {[]string{"--secret-dir", none, "--replicas", "-1"}, "--partitions and --replicas must not be negative: 0 means the cluster's default\nSee 'keyturn probe client --help'.\n"},
		"an argument":            {[]string{"--secret-dir", none, "kafka/my-cluster"}, "keyturn probe client takes no argument, and \"kafka/my-cluster\" is one\nSee 'keyturn probe client --help'.\n"},
		"a flag of other probes": {[]string{"--secret-dir", none, "--namespace", "kafka"}, "unknown flag: --namespace\nSee 'keyturn probe client --help'.\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err, code := typed(append([]string{"keyturn", "probe", "client"}, test.args...)...)
			if code != 1 || err != test.want || out != "" {
				t.Errorf("it ends with %d and says %q, want %q", code, err, test.want)
			}
		})
	}
}

func TestTheProbeClientIsForPods(t *testing.T) {
	t.Parallel()
	if help, _, _ := typed("kubectl-keyturn", "probe", "--help"); strings.Contains(help, "\n  client ") {
		t.Errorf("help of the plugin:\n%s", help)
	}
	if help, _, _ := typed("keyturn", "probe", "--help"); !strings.Contains(help, "\n  client ") {
		t.Errorf("help of keyturn:\n%s", help)
	}
}
