package topics_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keyturn/keyturn/internal/kafka/topics"
)

func TestAnIDIsWrittenAsKafkaDoes(t *testing.T) {
	t.Parallel()
	id := topics.ID([]byte("2E78EA57052D436B"))
	if text := id.String(); text != "MkU3OEVBNTcwNTJENDM2Qg" || id.IsZero() || !(topics.ID{}).IsZero() {
		t.Errorf("it is written as %q", text)
	}
}

func TestNamesThatKafkaTakes(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"My.Topic_1-a": true, "__consumer_offsets": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("x", 250): false, "a\n": false,
	} {
		if topics.IsName(name) != is {
			t.Errorf("IsName(%q) = %t", name, !is)
		}
	}
}

func TestValuesAreComparedByTheTypeOfTheirProperty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, a, b string
		same      bool
	}{
		"the same text":                      {"some.key", "x", "x", true},
		"another text":                       {"some.key", "1.0", "1", false},
		"a number with a fraction of zero":   {"retention.ms", "1.0", "1", true},
		"a number with an exponent":          {"retention.bytes", "1.024E8", "102400000", true},
		"a number with a sign":               {"retention.ms", "+7", "7", true},
		"a number with spaces":               {"retention.ms", " 7 ", "7", true},
		"another number":                     {"retention.ms", "7", "8", false},
		"a ratio":                            {"min.cleanable.dirty.ratio", "0.50", ".5", true},
		"what is no number":                  {"retention.ms", "1 week", "7", false},
		"what would be a number to Go alone": {"retention.ms", "0x10", "16", false},
		"a fraction":                         {"retention.ms", "2/1", "2", false},
		"a number of endless digits":         {"retention.ms", "1e999999999", "1e999999998", false},
		"a boolean in capitals":              {"preallocate", "True", "true", true},
		"another boolean":                    {"preallocate", "false", "true", false},
		"what is no boolean":                 {"preallocate", "Yes", "yes", false},
		"a list with spaces":                 {"cleanup.policy", "compact, delete", "compact,delete", true},
		"a list in another order":            {"cleanup.policy", "delete,compact", "compact,delete", false},
		"an empty list":                      {"cleanup.policy", " ", "", true},
		"an empty list and one with entries": {"cleanup.policy", "", "delete", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if topics.SameValue(c.key, c.a, c.b) != c.same || topics.SameValue(c.key, c.b, c.a) != c.same {
				t.Errorf("%s=%q and %q: same is %t", c.key, c.a, c.b, !c.same)
			}
		})
	}
}

func TestOnlyPropertiesThatDifferAreChanged(t *testing.T) {
	t.Parallel()
	type config = map[string]string
	for name, c := range map[string]struct {
		held, wanted config
		want         topics.ConfigChange
	}{
		"nothing differs":                 {config{"retention.ms": "1"}, config{"retention.ms": "1.0"}, topics.ConfigChange{}},
		"one is missing":                  {nil, config{"retention.ms": "1"}, topics.ConfigChange{Set: config{"retention.ms": "1"}}},
		"one is another":                  {config{"retention.ms": "2"}, config{"retention.ms": "1"}, topics.ConfigChange{Set: config{"retention.ms": "1"}}},
		"two are too many":                {config{"b": "1", "a": "1"}, nil, topics.ConfigChange{Remove: []string{"a", "b"}}},
		"a throttle of a tool":            {config{"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "0:1"}, nil, topics.ConfigChange{}},
		"a throttle that is asked for":    {config{"leader.replication.throttled.replicas": "*"}, config{"leader.replication.throttled.replicas": "0:1"}, topics.ConfigChange{Set: config{"leader.replication.throttled.replicas": "0:1"}}},
		"the empty text, which is set":    {config{"cleanup.policy": ""}, config{"cleanup.policy": ""}, topics.ConfigChange{}},
		"the empty text, which is absent": {nil, config{"cleanup.policy": ""}, topics.ConfigChange{Set: config{"cleanup.policy": ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := topics.DiffConfig(c.held, c.wanted)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if again := topics.DiffConfig(got.Apply(c.held), c.wanted); !again.IsNone() {
				t.Errorf("after the change there is another: %+v", again)
			}
		})
	}
}
