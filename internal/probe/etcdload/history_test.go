package etcdload_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/probe/etcdload"
)

const (
	key   = "key"
	limit = 10 * time.Second
)

func TestAHistoryIsAcceptedWhenARegisterHasIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens  func(*etcdload.History)
		accepted bool
	}{
		"nothing": {func(*etcdload.History) {}, true},
		"a read of what was written": {func(h *etcdload.History) {
			h.Read(1, key, "", h.Now())
			h.Wrote(0, key, "a", h.Now())
			h.Read(1, key, "a", h.Now())
		}, true},
		"either value during a write": {func(h *etcdload.History) {
			begun := h.Now()
			h.Read(1, key, "", h.Now())
			h.Read(1, key, "a", h.Now())
			h.Wrote(0, key, "a", begun)
		}, true},
		"a write with an unknown outcome that takes effect late": {func(h *etcdload.History) {
			h.MayHaveWritten(0, key, "a", h.Now())
			h.Read(1, key, "", h.Now())
			h.Read(1, key, "a", h.Now())
		}, true},
		"a write with an unknown outcome that never takes effect": {func(h *etcdload.History) {
			h.MayHaveWritten(0, key, "a", h.Now())
			h.Wrote(0, key, "b", h.Now())
			h.Read(1, key, "b", h.Now())
		}, true},
		"a lost write": {func(h *etcdload.History) {
			h.Wrote(0, key, "a", h.Now())
			h.Wrote(0, key, "b", h.Now())
			h.Read(1, key, "a", h.Now())
		}, false},
		"a lost key": {func(h *etcdload.History) {
			h.Wrote(0, key, "a", h.Now())
			h.Read(1, key, "", h.Now())
		}, false},
		"a stale read after a newer one": {func(h *etcdload.History) {
			begun := h.Now()
			h.Read(1, key, "a", h.Now())
			h.Read(2, key, "", h.Now())
			h.Wrote(0, key, "a", begun)
		}, false},
		"a write with an unknown outcome that takes effect twice": {func(h *etcdload.History) {
			h.MayHaveWritten(0, key, "a", h.Now())
			h.Read(1, key, "a", h.Now())
			h.Wrote(0, key, "b", h.Now())
			h.Read(1, key, "a", h.Now())
		}, false},
		"a value from nowhere": {func(h *etcdload.History) {
			h.Read(1, key, "x", h.Now())
		}, false},
		"a value of another key": {func(h *etcdload.History) {
			h.Wrote(0, "other", "a", h.Now())
			h.Read(1, key, "a", h.Now())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := etcdload.NewHistory()
			c.happens(h)
			if problems := h.Check(limit); (len(problems) == 0) != c.accepted {
				t.Errorf("accepted is to be %t, and the problems are %v", c.accepted, problems)
			}
		})
	}
}
