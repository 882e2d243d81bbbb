package controller

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/api/condition"
)

func TestAConditionOfWhichOnePartAloneChangesIsWrittenDownAgain(t *testing.T) {
	t.Parallel()
	before := condition.Condition{Type: conditionClusterCATrust, Status: condition.False, Reason: "Announcing", Message: "a"}
	for name, c := range map[string]struct {
		change func(*condition.Condition)
		says   string
	}{
		"its status":  {func(c *condition.Condition) { c.Status = condition.True }, "status=True reason=Announcing message=a"},
		"its reason":  {func(c *condition.Condition) { c.Reason = "Withdrawing" }, "status=False reason=Withdrawing message=a"},
		"its message": {func(c *condition.Condition) { c.Message = "b" }, "status=False reason=Announcing message=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, written := logging()
			p, now := clusterOf(smallKafka(), nil), before
			p.kafka.Status.Conditions = []condition.Condition{before}
			c.change(&now)

			r.announce(p.observation, []condition.Condition{now})

			if lines := linesOf(written); len(lines) != 1 || !strings.Contains(lines[0], c.says) {
				t.Errorf("lines %q, want one with %q", lines, c.says)
			}
		})
	}
}
