package controller

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

func TestAPodIsAsItIsSinceSomethingWasPublishedToIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	mounted := publication.Report{Mounted: &publication.Publication{Revision: 3}}
	tests := map[string]struct {
		said      agentReport
		published publication.Publication
		want      time.Time
	}{
		"it has mounted what was published before": {
			agentReport{known: true, report: mounted, since: ago(time.Minute)}, publication.Publication{Revision: 3, PublishedAt: ago(time.Hour)}, ago(time.Minute),
		},
		"something was published after it had come to be so": {
			agentReport{known: true, report: mounted, since: ago(time.Hour)}, publication.Publication{Revision: 4, PublishedAt: ago(time.Minute)}, ago(time.Minute),
		},
		"the operator was restarted while a kubelet lags": {
			agentReport{known: true, report: mounted, since: now}, publication.Publication{Revision: 4, PublishedAt: ago(time.Hour)}, ago(time.Hour),
		},
		"the publication bears a time to come": {
			agentReport{known: true, report: mounted, since: ago(time.Hour)}, publication.Publication{Revision: 4, PublishedAt: ago(-time.Hour)}, ago(time.Hour),
		},
		"it has been silent since before": {
			agentReport{since: ago(time.Hour)}, publication.Publication{Revision: 4, PublishedAt: ago(time.Minute)}, ago(time.Hour),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.said.waitingSince(test.published, now); !got.Equal(test.want) {
				t.Errorf("since %s, want %s", got, test.want)
			}
		})
	}
}

func TestThereAreAsManyRolesAsTheServerWasStartedWith(t *testing.T) {
	t.Parallel()
	pinned := func(pin string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{agent.PinAnnotation: pin}}}
	}
	many := publication.Publication{Revision: 1, Trust: map[publication.Role][]string{}}
	for i := range 30 {
		many.Trust[publication.Role(strconv.Itoa(i))] = nil
	}
	pin, err := many.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		listeners int
		pod       *corev1.Pod
		want      int
	}{
		"as configured":                    {listeners: 3, pod: pinned(`{"revision":1}`), want: 7},
		"listeners that were taken out":    {listeners: 3, pod: pinned(string(pin)), want: 34},
		"listeners that are still to come": {listeners: 50, pod: pinned(string(pin)), want: 54},
		"a pin that nobody can read":       {listeners: 3, pod: pinned("7!"), want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &polled{desired: &desired{observation: &observation{}, cluster: model.Cluster{Listeners: make([]model.Listener, c.listeners)}}}
			if got := p.addressOf(c.pod, nil).Roles; got != c.want {
				t.Errorf("%d roles, want %d", got, c.want)
			}
		})
	}
}

func TestAPodThatIsBeingRemovedIsWaitedForSinceItShouldHaveTerminated(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	ending := func(at time.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: at}}}
	}
	tests := map[string]struct {
		known bool
		pod   *corev1.Pod
		since time.Time
		want  time.Time
	}{
		"it has not been deleted yet":                     {true, &corev1.Pod{}, ago(time.Hour), now},
		"it may still take its time":                      {true, ending(ago(-time.Minute)), ago(time.Hour), now},
		"it should have terminated":                       {true, ending(ago(time.Minute)), ago(time.Hour), ago(time.Minute)},
		"it has answered something else since it should":  {true, ending(ago(time.Hour)), ago(time.Minute), ago(time.Minute)},
		"it has been silent since before":                 {false, ending(ago(time.Minute)), ago(time.Hour), ago(time.Hour)},
		"it is gone while its answer is still remembered": {true, nil, ago(time.Hour), now},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported := agentReport{known: test.known}
			if got := reported.overdueSince(test.pod, test.since, now); !got.Equal(test.want) {
				t.Errorf("since %s, want %s", got, test.want)
			}
		})
	}
}

// What is left of a CA may be known only from what nodes had reported before they could no longer be polled.
func TestWhatAPodHasReportedLastIsKeptWhileItIsSilent(t *testing.T) {
	t.Parallel()
	first, second := &publication.Report{Revision: 1}, &publication.Report{Revision: 2}
	for name, test := range map[string]struct {
		known reports.Report[publication.Report]
		want  publication.Report
	}{
		"it answers":             {reports.Report[publication.Report]{Answer: second, Before: first}, *second},
		"it is silent":           {reports.Report[publication.Report]{Before: second}, *second},
		"it has never answered":  {reports.Report[publication.Report]{}, publication.Report{}},
		"another process is run": {reports.Report[publication.Report]{Answer: second, Process: "another"}, *second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "my-0"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
			c := clusterOf(smallKafka(), map[string]*corev1.Pod{"my-0": pod})
			c.reports = map[string]agentReport{}

			c.takeReport(pod, test.known, true)

			if got := c.reports["my-0"].last; got.Revision != test.want.Revision {
				t.Errorf("revision %d was reported last, want %d", got.Revision, test.want.Revision)
			}
		})
	}
}

// Whatever is said in each reconcile is said of the same pod, so that nothing is written at rest.
func TestTheReloadThatEndedLastIsTakenDown(t *testing.T) {
	t.Parallel()
	report := func(before, revision int64, since time.Duration) reports.Report[publication.Report] {
		known := reports.Report[publication.Report]{Answer: &publication.Report{Revision: revision}, Since: noon().Add(since)}
		if before > 0 {
			known.Before = &publication.Report{Revision: before}
		}
		return known
	}
	c := clusterOf(smallKafka(), map[string]*corev1.Pod{})
	c.secrets = map[string]corev1.Secret{}
	published, err := publication.Publication{Revision: 4, PublishedAt: noon()}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	latest := map[types.UID]reports.Report[publication.Report]{
		"first":          report(3, 4, 10*time.Second),
		"last":           report(3, 4, 20*time.Second),
		"started with":   report(0, 4, time.Hour),
		"something else": report(2, 3, time.Hour),
		"went back":      report(5, 4, time.Hour),
	}
	for uid := range latest {
		name := string(uid)
		c.pods[name] = readyPod(name)
		c.pods[name].UID = uid
		c.secrets[name] = corev1.Secret{Data: map[string][]byte{agent.PublicationKey: published}}
	}
	for range 20 {
		if took := lastReload(c.polled, latest); took != 20*time.Second {
			t.Fatalf("it took %s, want 20s", took)
		}
	}
}
