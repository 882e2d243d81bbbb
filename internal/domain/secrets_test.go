package domain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
)

func TestTheKeyOfACAIsWrittenFirst(t *testing.T) {
	t.Parallel()
	usual := []string{"peer holds key", "peer-cert holds cert"}
	left := authority.Stored{Exists: true, Data: map[string][]byte{"ca.crt": nil}}
	for name, c := range map[string]struct {
		transitions []authority.TransitionKind
		present     authority.Stored
		want        []string
	}{
		"nothing happens":          {present: left, want: usual},
		"a renewal":                {[]authority.TransitionKind{authority.Renewed}, left, usual},
		"a promotion":              {[]authority.TransitionKind{"Promoted"}, left, usual},
		"a beginning":              {[]authority.TransitionKind{authority.Created}, authority.Stored{}, usual},
		"a beginning on leftovers": {[]authority.TransitionKind{authority.Created}, left, append([]string{"peer-cert holds "}, usual...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settled := authority.Settled{
				Key: authority.Desired{Ours: true, Data: map[string][]byte{"key": nil}}, Cert: authority.Desired{Ours: true, Data: map[string][]byte{"cert": nil}},
			}
			for _, kind := range c.transitions {
				settled.Transitions = append(settled.Transitions, authority.Transition{Kind: kind})
			}
			var got []string
			for _, secret := range domain.CASecrets(names(peer), settled, c.present) {
				got = append(got, secret.Name+" holds "+strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}
