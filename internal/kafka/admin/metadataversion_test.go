package admin_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

func TestMetadataVersionLevel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int16{
		"3.3-IV3": 7, "3.9": 21, "4.0-IV3": 25, "4.0": 25, "4.1": 27, "4.2-IV0": 28, "4.2.1": 29, "4.3": 30, "4.3.1": 30, "4.3-IV0": 30,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := admin.MetadataVersionLevel(name); got != want || err != nil {
				t.Errorf("level %d, %v; want %d", got, err, want)
			}
		})
	}
}

func TestMetadataVersionLevelRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "4", "4.3-IV9", "3.2", "4.30", "4.x", "4.3.1.0", "-IV0", "4.3-IV"} {
		level, err := admin.MetadataVersionLevel(name)
		if unknown, ok := errors.AsType[*admin.UnknownMetadataVersionError](err); !ok || unknown.Name != name {
			t.Errorf("%q: level %d, %v; want an UnknownMetadataVersionError", name, level, err)
		}
	}
}

func TestEveryLevelHasAName(t *testing.T) {
	t.Parallel()
	for level := int16(7); level <= 30; level++ {
		name := admin.MetadataVersionName(level)
		if got, err := admin.MetadataVersionLevel(name); got != level || err != nil {
			t.Errorf("level %d is named %q, which is level %d, %v", level, name, got, err)
		}
	}
	if got := admin.MetadataVersionName(31); got != "level 31" {
		t.Errorf("an unknown level is named %q", got)
	}
}

func FuzzMetadataVersionLevel(f *testing.F) {
	f.Add("4.3-IV0")
	f.Add("4.3.1")
	f.Add("..")
	f.Fuzz(func(t *testing.T, name string) {
		level, err := admin.MetadataVersionLevel(name)
		if err == nil && (level < 7 || level > 30) {
			t.Errorf("%q is level %d", name, level)
		}
	})
}
