package rotation_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// Nobody can help a process that people know by another name.
func TestWhoWaitsForTheOperatorIsToldSo(t *testing.T) {
	t.Parallel()
	record := rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed)
	told := 0
	for s := record.Snapshot; ; {
		plan := trust.Decide(s)
		record.Snapshot = s
		for _, line := range record.Status(s.Now).Blockers {
			if strings.Contains(line, "the operator itself") {
				told++
			}
			if strings.Contains(line, "waiting for operator ") {
				t.Errorf("%s: %q", authorities.Words().PhaseOf(s, plan), line)
			}
		}
		if !rotationtest.Advance(&s, plan) {
			break
		}
	}
	if told == 0 {
		t.Error("nobody ever waits for the operator")
	}
}
