package release

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Logging is the library by which a server writes its log.
type Logging int

// The libraries.
const (
	// Log4j2 reads what -Dlog4j2.configurationFile names.
	Log4j2 Logging = iota
	// Log4j1 is its predecessor, of which reload4j is the kept one, and reads what -Dlog4j.configuration names.
	Log4j1
)

// Release is a minor release.
type Release struct {
	// Minor is its name, such as "4.3".
	Minor string
	// Patches are the versions that nodes are known to run, oldest first.
	Patches []string
	// Logging is the library by which its servers write their logs.
	Logging Logging
	// Limits are the settings that keep its brokers from starting below a value.
	Limits []Limit
	// TopicLimits are the settings of topics that keep its brokers from starting below a value.
	TopicLimits []Limit
}

// Limit is the lowest value of a setting with which a broker starts.
type Limit struct {
	Key     string
	AtLeast int64
}

// All are the releases whose nodes can be run, oldest first. The patches are those on Maven Central; the library of logs is
// that of each release's jars (KIP-653), the limits are of Kafka's notes on upgrading and were tried with real servers.
func All() []Release {
	segments := Limit{"log.segment.bytes", 1 << 20}
	fetchers := Limit{"num.replica.fetchers", 1}
	ofTopics := []Limit{{topics.SegmentBytes, topics.SmallestSegment}}
	return []Release{
		{Minor: "3.9", Patches: []string{"3.9.0", "3.9.1", "3.9.2"}, Logging: Log4j1},
		{Minor: "4.0", Patches: []string{"4.0.0", "4.0.1", "4.0.2"}, Limits: []Limit{segments}, TopicLimits: ofTopics},
		{Minor: "4.1", Patches: []string{"4.1.0", "4.1.1", "4.1.2"}, Limits: []Limit{segments}, TopicLimits: ofTopics},
		{Minor: "4.2", Patches: []string{"4.2.0", "4.2.1", "4.2.2"}, Limits: []Limit{segments, fetchers}, TopicLimits: ofTopics},
		{Minor: "4.3", Patches: []string{"4.3.0", "4.3.1"}, Limits: []Limit{segments, fetchers}, TopicLimits: ofTopics},
	}
}

// NewTopicLimits are the limits of topics that the release of a version has and none of the versions that run: with a topic below
// one of them the first node that is restarted into the version would stay away. They are none where nothing runs.
func NewTopicLimits(version string, running []string) []Limit {
	if len(running) == 0 {
		return nil
	}
	to, _ := Of(version)
	return slices.DeleteFunc(slices.Clone(to.TopicLimits), func(l Limit) bool {
		return slices.ContainsFunc(running, func(version string) bool {
			from, _ := Of(version)
			return slices.Contains(from.TopicLimits, l)
		})
	})
}

// Of is the release of a version such as "4.3.1", and whether its nodes can be run. A patch that came later than this
// program is one of its release.
func Of(version string) (Release, bool) {
	minor, isVersion := minorOf(version)
	if !isVersion {
		return Release{}, false
	}
	all := All()
	at := slices.IndexFunc(all, func(r Release) bool { return r.Minor == minor })
	if at < 0 {
		return Release{}, false
	}
	return all[at], true
}

// minorOf is the minor release of a version, and whether it is a version at all.
func minorOf(version string) (string, bool) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return "", false
	}
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return "", false
		}
		parts[i] = strconv.FormatUint(number, 10)
	}
	return parts[0] + "." + parts[1], true
}

// Compare orders dotted versions by their numbers; parts that are no numbers count as zero.
func Compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if order := cmp.Compare(part(as, i), part(bs, i)); order != 0 {
			return order
		}
	}
	return 0
}

func part(parts []string, at int) uint64 {
	if at >= len(parts) {
		return 0
	}
	number, err := strconv.ParseUint(parts[at], 10, 32)
	if err != nil {
		return 0
	}
	return number
}
