package harness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
)

// LongestGap is the longest time that any client waited between two
// acknowledgements.
func LongestGap(result probe.Result) time.Duration {
	var longest time.Duration
	for _, client := range result.Clients {
		longest = max(longest, client.Records.LongestGap.Length)
	}
	return longest
}

// LongestGapIn is LongestGap of the gaps that ended in one phase of the load.
func LongestGapIn(result probe.Result, phase string) time.Duration {
	var longest time.Duration
	for _, client := range result.Clients {
		longest = max(longest, client.Records.Phases[phase].LongestGap.Length)
	}
	return longest
}

// GapFigure holds the longest gap against a bound.
func GapFigure(result probe.Result, bound time.Duration) report.Figure {
	return report.AtMost("longest gap within bounds", LongestGap(result).Seconds(), bound.Seconds(), "s",
		"longest time between two acknowledgements of one client, of all clients")
}

// Replaced says whether a pod is the ready successor of the one with the UID.
func Replaced(pod *corev1.Pod, before types.UID) bool {
	return pod != nil && pod.UID != before && podReady(pod)
}
