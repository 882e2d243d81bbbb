package controller

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keyturn/keyturn/internal/access/binding"
)

func TestMetricsCountAccessesAndWrites(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	public, proposed := binding.Public().GroupVersion, binding.Proposed().GroupVersion
	m.reconciled(public, named("first"), true)
	m.reconciled(public, named("second"), false)
	m.reconciled(public, named("third"), false)
	m.reconciled(public, named("third"), true)
	m.reconciled(proposed, named("third"), true)
	m.reconciled(public, named("gone"), true)
	m.forget(public, named("gone"))
	m.wrote()
	const want = `
# HELP keyturn_access_secret_writes_total How many times the Secret of a KafkaAccess was created or changed.
# TYPE keyturn_access_secret_writes_total counter
keyturn_access_secret_writes_total 1
# HELP keyturn_access_resources How many KafkaAccesses are ready, and how many are not.
# TYPE keyturn_access_resources gauge
keyturn_access_resources{ready="false"} 1
keyturn_access_resources{ready="true"} 3
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
