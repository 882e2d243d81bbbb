package probe

import (
	"slices"
	"testing"
	"time"
)

func TestClientsDoNotAllBeginAtTheSameMoment(t *testing.T) {
	t.Parallel()
	const clients = 12
	var offsets []time.Duration
	for n := range clients {
		o := offset(n, time.Second)
		if o < 0 || o >= time.Second {
			t.Errorf("client %d begins after %s, outside of its interval", n, o)
		}
		offsets = append(offsets, o)
	}
	slices.Sort(offsets)
	for i := 1; i < clients; i++ {
		if apart := offsets[i] - offsets[i-1]; apart < time.Second/clients/2 {
			t.Errorf("two clients begin only %s apart: %s", apart, offsets)
		}
	}
}
