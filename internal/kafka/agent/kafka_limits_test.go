package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	kafkajava "github.com/keyturn/keyturn/internal/kafka/agent/java"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// TestServersRefuseWhatIsBelowALimitOfTheirRelease holds the table of limits against the servers' own checks, and that
// what one release refuses the release before accepts.
func TestServersRefuseWhatIsBelowALimitOfTheirRelease(t *testing.T) {
	t.Parallel()
	for version, network := range eachVersion("127.89") {
		t.Run("Kafka "+version, func(t *testing.T) {
			t.Parallel()
			kafka, err := kafkajava.Find(agenttest.KafkaHome(t, version), os.Getenv("JAVA_HOME"))
			if err != nil {
				t.Fatal(err)
			}
			of, _ := release.Of(version)
			for _, limit := range everyLimit() {
				said, accepted := formatsWith(t, kafka, network, fmt.Sprintf("%s=%d", limit.Key, limit.AtLeast-1))
				isListed := strings.Contains(fmt.Sprint(of.Limits), fmt.Sprint(limit))
				if accepted == isListed || !accepted && !strings.Contains(said, limit.Key) {
					t.Errorf("%s below %d is accepted: %t; it says %s", limit.Key, limit.AtLeast, accepted, said)
				}
				if said, accepted := formatsWith(t, kafka, network, fmt.Sprintf("%s=%d", limit.Key, limit.AtLeast)); !accepted {
					t.Errorf("%s of %d is refused: %s", limit.Key, limit.AtLeast, said)
				}
			}
		})
	}
}

// everyLimit are the limits of the newest release, which has those of all before.
func everyLimit() []release.Limit {
	all := release.All()
	return all[len(all)-1].Limits
}

// formatsWith formats storage with a setting and returns what the tool says, and whether it accepts the setting.
func formatsWith(t *testing.T, kafka kafkajava.Kafka, address, setting string) (said string, accepted bool) {
	t.Helper()
	folder := t.TempDir()
	properties := filepath.Join(folder, "server.properties")
	text := strings.Join([]string{
		"process.roles=broker,controller", "node.id=0", "controller.listener.names=CONTROLLER",
		"controller.quorum.voters=0@" + address + ".1:9090", "listeners=CONTROLLER://" + address + ".1:9090,PLAINTEXT://" + address + ".1:9091",
		"log.dirs=" + filepath.Join(folder, "data"), setting,
	}, "\n")
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := kafkajava.FormatSpec{ClusterID: "MkU3OEVBNTcwNTJENDM2Qk", Properties: properties}
	output, err := exec.CommandContext(t.Context(), kafka.Java, kafka.Format(spec)...).CombinedOutput()
	return string(output), err == nil
}
