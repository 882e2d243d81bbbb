package check_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/cli/check"
	"github.com/keyturn/keyturn/internal/rotation"
)

const day = 24 * time.Hour

func now() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

// healthy is a cluster with default settings that is a day away from its first renewal.
func healthy(changes ...func(*check.Snapshot)) check.Snapshot {
	s := check.Snapshot{
		Namespace: "kafka", Object: "kafka/my-cluster", Look: "kubectl keyturn status kafka/my-cluster -n kafka",
		Conditions: []check.Condition{{Type: "Ready", Status: "True"}, {Type: "CertificatesValid", Status: "True", Reason: "Valid"}},
		Certificates: []check.Certificate{
			{Name: "CA", NotAfter: now().Add(31 * day), Renewer: check.ByOperator, Renewal: 30 * day},
			{Name: "node", NotAfter: now().Add(31 * day), Renewer: check.ByOperator, Renewal: 30 * day},
			{Name: "listener", Of: check.Listener, NotAfter: now().Add(31 * day), Renewer: check.ByOwner, Renewal: 30 * day},
			{Name: "previous CA", NotAfter: now().Add(10 * day), Renewer: check.OnRequest},
		},
		Rotations: []check.Rotation{{CA: "cluster CA", Phase: rotation.Trusted}},
		Users:     check.Users{Total: 7, Ready: 7},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// ends lets one certificate of a healthy cluster end after a time.
func ends(certificate int, left time.Duration) func(*check.Snapshot) {
	return func(s *check.Snapshot) { s.Certificates[certificate].NotAfter = now().Add(left) }
}

// conditions takes the place of those of a healthy cluster.
func conditions(list ...check.Condition) func(*check.Snapshot) {
	return func(s *check.Snapshot) { s.Conditions = list }
}

func warned(reason string) func(*check.Snapshot) {
	return func(s *check.Snapshot) {
		s.Conditions = append(s.Conditions, check.Condition{Type: "Warning", Status: "True", Reason: reason, Message: "see"})
	}
}

func phase(p rotation.Phase) func(*check.Snapshot) {
	return func(s *check.Snapshot) { s.Rotations[0].Phase = p }
}

const (
	ca = iota
	node
	listener
	previous
)

func TestWhatIsFoundDependsOnTheStatusAndTheTime(t *testing.T) {
	t.Parallel()
	ready := check.Condition{Type: "Ready", Status: "True"}
	tests := map[string]struct {
		snapshot check.Snapshot
		within   time.Duration
		want     []check.Kind
		verdict  check.Verdict
	}{
		"a healthy cluster":                      {healthy(), 0, nil, check.Passed},
		"a healthy cluster, and a short time":    {healthy(), 9 * day, nil, check.Passed},
		"a certificate that is due for an hour":  {healthy(ends(node, 30*day-time.Hour)), 0, nil, check.Passed},
		"a certificate that is due for two days": {healthy(ends(node, 28*day)), 0, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"a CA that is due for two days":          {healthy(ends(ca, 28*day)), 0, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"a renewal that waits for a window":      {healthy(ends(node, 2*day), warned("CertificatePostponed")), 0, nil, check.Passed},
		"a renewal that has waited too long":     {healthy(ends(node, 23*time.Hour), warned("CertificatePostponed")), 0, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"a CA that waits for a window":           {healthy(ends(ca, 2*day), warned("MaintenanceWindowClosed")), 0, nil, check.Passed},
		"a certificate that has expired":         {healthy(ends(node, -time.Second)), 0, []check.Kind{check.Expired}, check.CertificateExpires},
		"a certificate that expires now":         {healthy(ends(node, 0)), 0, []check.Kind{check.Expired}, check.CertificateExpires},
		"a certificate whose renewal is not known": {healthy(func(s *check.Snapshot) {
			s.Certificates[node].Renewal, s.Certificates[node].NotAfter = 0, now().Add(time.Hour)
		}), 0, nil, check.Passed},
		"the same within a time": {healthy(func(s *check.Snapshot) {
			s.Certificates[node].Renewal, s.Certificates[node].NotAfter = 0, now().Add(time.Hour)
		}), 2 * time.Hour, []check.Kind{check.ExpiresSoon}, check.CertificateExpires},
		"an owner's certificate within its renewal":    {healthy(ends(listener, 30*day)), 0, []check.Kind{check.ExpiresSoon}, check.CertificateExpires},
		"an owner's certificate outside of the time":   {healthy(ends(listener, 20*day)), 9 * day, nil, check.Passed},
		"an owner's certificate that has expired":      {healthy(ends(listener, -day)), day, []check.Kind{check.Expired}, check.CertificateExpires},
		"the previous CA within the time":              {healthy(), 10 * day, []check.Kind{check.ExpiresSoon}, check.CertificateExpires},
		"the previous CA after its end":                {healthy(ends(previous, -day)), 9 * day, nil, check.Passed},
		"everything within the time":                   {healthy(), 31 * day, []check.Kind{check.ExpiresSoon, check.ExpiresSoon, check.ExpiresSoon, check.ExpiresSoon}, check.CertificateExpires},
		"an overdue renewal outside of the time":       {healthy(ends(node, 20*day)), 9 * day, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"no status":                                    {healthy(conditions()), 0, []check.Kind{check.NoStatus}, check.ClusterNotReady},
		"Strimzi's NotReady":                           {healthy(conditions(check.Condition{Type: "NotReady", Status: "True", Reason: "PodsNotReady"})), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"NotReady beside an earlier Ready":             {healthy(conditions(ready, check.Condition{Type: "NotReady", Status: "True"})), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"NotReady that is False":                       {healthy(conditions(ready, check.Condition{Type: "NotReady", Status: "False"})), 0, nil, check.Passed},
		"Ready that is False":                          {healthy(conditions(check.Condition{Type: "Ready", Status: "False"})), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"Ready that is Unknown":                        {healthy(conditions(check.Condition{Type: "Ready", Status: "Unknown"})), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"warnings alone":                               {healthy(conditions(check.Condition{Type: "Warning", Status: "True"})), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"a pause":                                      {healthy(conditions(ready, check.Condition{Type: "ReconciliationPaused", Status: "True"})), 0, []check.Kind{check.Paused}, check.ClusterNotReady},
		"a rotation that moves":                        {healthy(phase(rotation.WaitingForLeaves)), 0, nil, check.Passed},
		"a rotation that is blocked":                   {healthy(phase(rotation.Blocked)), 0, []check.Kind{check.RotationBlocked}, check.ClusterNotReady},
		"a CA that is missing":                         {healthy(phase(rotation.AuthorityMissing)), 0, []check.Kind{check.RotationBlocked}, check.ClusterNotReady},
		"a user that is not ready":                     {healthy(func(s *check.Snapshot) { s.Users.Ready = 6 }), 0, []check.Kind{check.UsersNotReady}, check.ClusterNotReady},
		"expired, as a condition says":                 {healthy(conditions(ready, check.Condition{Type: "CertificatesValid", Status: "False"})), 0, []check.Kind{check.Expired}, check.CertificateExpires},
		"expired, as status and condition say":         {healthy(ends(node, -day), conditions(ready, check.Condition{Type: "CertificatesValid", Status: "False"})), 0, []check.Kind{check.Expired}, check.CertificateExpires},
		"an issuer that does not answer":               {healthy(warned("CertificatePending")), 0, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"a certificate that nothing can sign":          {healthy(warned("CertificateHeld")), 0, []check.Kind{check.RenewalOverdue}, check.CertificateExpires},
		"a warning about a listener":                   {healthy(warned("ListenerCertificateExpiring")), 0, []check.Kind{check.ExpiresSoon}, check.CertificateExpires},
		"a warning about a listener that is found":     {healthy(ends(listener, day), warned("ListenerCertificateExpiring")), 0, []check.Kind{check.ExpiresSoon}, check.CertificateExpires},
		"a warning about a listener, and another time": {healthy(warned("ListenerCertificateExpiring")), day, nil, check.Passed},
		"a warning about something else":               {healthy(warned("KafkaStorage")), 0, nil, check.Passed},
		"a restart that takes its turn":                {healthy(func(s *check.Snapshot) { s.Restarts = []check.Restart{{Node: "a", Due: now().Add(-time.Hour)}} }), 0, nil, check.Passed},
		"a restart that did not happen":                {healthy(func(s *check.Snapshot) { s.Restarts = []check.Restart{{Node: "a", Due: now().Add(-2 * time.Hour)}} }), 0, []check.Kind{check.RestartOverdue}, check.CertificateExpires},
		"certificates that cannot be read":             {healthy(func(s *check.Snapshot) { s.Unread = "forbidden" }), 0, []check.Kind{check.NotRead}, check.Unknown},
		"no record of a cluster that is not ready":     {healthy(conditions(check.Condition{Type: "NotReady", Status: "True"}), func(s *check.Snapshot) { s.Unread = "no record" }), 0, []check.Kind{check.NotReady}, check.ClusterNotReady},
		"not everything could be read, and one expires": {
			healthy(ends(node, day), func(s *check.Snapshot) { s.Unread = "forbidden" }), 0,
			[]check.Kind{check.RenewalOverdue, check.NotRead},
			check.CertificateExpires,
		},
		"not ready, and one expires": {
			healthy(ends(node, -day), conditions(check.Condition{Type: "NotReady", Status: "True"})), 0,
			[]check.Kind{check.NotReady, check.Expired},
			check.ClusterNotReady,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings := check.Decide(test.snapshot, check.Question{Now: now(), Within: test.within})
			var kinds []check.Kind
			for i := range findings {
				kinds = append(kinds, findings[i].Kind)
			}
			if diff := cmp.Diff(test.want, kinds); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := check.VerdictOf(findings); got != test.verdict {
				t.Errorf("the verdict is %s, want %s", got, test.verdict)
			}
		})
	}
}

func TestAFindingSaysOfWhichClusterWhatWhenAndWhatToDo(t *testing.T) {
	t.Parallel()
	since := now().Add(-time.Hour)
	s := healthy(ends(node, 36*time.Hour), conditions(check.Condition{
		Type: "NotReady", Status: "True", Reason: "PodsNotReady", Message: "pod my-cluster-dual-role-1 is not ready", Since: since,
	}))
	want := []check.Finding{
		{
			Namespace: "kafka", Object: "kafka/my-cluster", Kind: check.NotReady, When: since,
			What:   "PodsNotReady: pod my-cluster-dual-role-1 is not ready",
			Remedy: "Do what the message says. All conditions: kubectl keyturn status kafka/my-cluster -n kafka",
		},
		{
			Namespace: "kafka", Object: "kafka/my-cluster", Kind: check.RenewalOverdue, When: now().Add(36 * time.Hour),
			What:   "node expires in 36h and was due for renewal 30d before its end",
			Remedy: "Check that the operator runs. Warnings say what it waits for: kubectl keyturn status kafka/my-cluster -n kafka",
		},
	}
	if diff := cmp.Diff(want, check.Decide(s, check.Question{Now: now()})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEveryFindingHasARemedy(t *testing.T) {
	t.Parallel()
	s := healthy(ends(node, -day), phase(rotation.Blocked), warned("CertificatePending"), func(s *check.Snapshot) {
		s.Users.Ready, s.Unread, s.Certificates[listener].Remedy = 0, "forbidden", "Replace it."
		s.Restarts = []check.Restart{{Node: "a", Due: now().Add(-day)}}
	})
	for _, f := range check.Decide(s, check.Question{Now: now(), Within: 90 * day}) {
		if f.What == "" || !strings.HasSuffix(f.Remedy, ".") && !strings.Contains(f.Remedy, ": kubectl ") {
			t.Errorf("%s says %q, and to do %q", f.Kind, f.What, f.Remedy)
		}
	}
}

func TestPeriodsAreDaysOrHours(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "12h": 12 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d5h": 5 * time.Hour, "106750d": 106750 * day,
	} {
		if got, err := check.ParsePeriod(text); err != nil || got != want {
			t.Errorf("%s is %v, error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1d", "-12h", "1d-12h", "0d", "0h", "1.5d", "12hd", "106752d", "4294967295d", "9999999999999d", "106750d9999h", "a month", "1h 30m"} {
		got, err := check.ParsePeriod(text)
		if err == nil || got != 0 || !strings.Contains(err.Error(), "for example 30d or 12h") {
			t.Errorf("%q is %v, error %v, want one that says what can be written", text, got, errors.Unwrap(err))
		}
	}
}

func FuzzParsePeriod(f *testing.F) {
	f.Add("30d")
	f.Add("1d12h")
	f.Fuzz(func(t *testing.T, text string) {
		if period, err := check.ParsePeriod(text); (err == nil) != (period > 0) {
			t.Errorf("%q is %v, error %v", text, period, err)
		}
	})
}
