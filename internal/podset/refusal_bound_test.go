package podset

import (
	"fmt"
	"strings"
	"testing"
)

// maxMessage is what the CRD takes: a longer message keeps the whole status from being
// written.
const maxMessage = 32768

func TestWhyManyPodsAreRefusedFitsIntoAStatus(t *testing.T) {
	t.Parallel()
	const remedy = "the operator rewrites StrimziPodSet production-eu-west-brokers by itself"
	for name, refuse := range map[string]func(*Refusals, int){
		"all for the same": func(r *Refusals, i int) {
			r.Add(fmt.Sprintf("production-eu-west-brokers-%d", i), "asks for a device", remedy)
		},
		"each for another":           func(r *Refusals, i int) { r.Add(fmt.Sprint(i), fmt.Sprintf("asks for device %d", i), remedy) },
		"with another remedy each":   func(r *Refusals, i int) { r.Add(fmt.Sprint(i), "asks", fmt.Sprintf("%s-%d", remedy, i)) },
		"for what somebody has sent": func(r *Refusals, i int) { r.Add(fmt.Sprint(i), strings.Repeat("x", 1<<20), remedy) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all Refusals
			for i := range 1000 {
				refuse(&all, i)
			}
			message := refusal(all.Sentences(), nil)[0].Message
			if len(message) > maxMessage || !strings.Contains(message, remedy) {
				t.Errorf("the message has %d bytes, want at most %d, and the remedy among them", len(message), maxMessage)
			}
		})
	}
}

func TestPodsThatAreRefusedForTheSameAreNamedTogetherWithOneRemedy(t *testing.T) {
	t.Parallel()
	var all Refusals
	all.Add("a", "mounts a path of its machine", "wait")
	all.Add("b", "mounts a path of its machine", "wait")
	all.Add("c", "has no image", "add the image")
	all.Add("d", "has ephemeral containers", "wait")
	all.Add("e", "cannot be read", "")
	want := "pods a, b: each mounts a path of its machine; pod d has ephemeral containers: wait; pod c has no image: add the image; pod e cannot be read" +
		"; until then the missing pods are not created"
	if got := refusal(all.Sentences(), nil)[0].Message; got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}
