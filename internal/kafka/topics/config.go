package topics

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// SegmentBytes is how large a segment of a partition gets, and SmallestSegment the least of it with which a broker of Kafka 4.0 or
// later starts (KIP-1030, and tried with 4.3.0 on the data of 3.9.2).
const (
	SegmentBytes    = "segment.bytes"
	SmallestSegment = 1 << 20
)

// CleanupPolicy is what becomes of old records.
const CleanupPolicy = "cleanup.policy"

// MinInSync is how many replicas of a partition must have a record before it is acknowledged to a producer with acks=all.
const MinInSync = "min.insync.replicas"

// kind is the type of a property.
type kind int

const (
	text kind = iota
	number
	boolean
	list
)

// kindOf is the type that Kafka gives to a property of topics. What it does not know is text.
func kindOf(key string) kind {
	switch key {
	case "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes", "local.retention.bytes", "local.retention.ms",
		"max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
		"message.timestamp.difference.max.ms", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", MinInSync, "retention.bytes",
		"retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms", "delete.retention.ms",
		"compression.gzip.level", "compression.lz4.level", "compression.zstd.level":
		return number
	case "message.downconversion.enable", "preallocate", "remote.copy.disable", "remote.log.copy.disable", "remote.log.delete.on.disable",
		"remote.storage.enable", "unclean.leader.election.enable":
		return boolean
	case CleanupPolicy, leaderThrottle, followerThrottle:
		return list
	default:
		return text
	}
}

// SameValue reports whether two texts are one value of a property: Kafka keeps texts as they were sent, and manifests may write a
// number in another way.
func SameValue(key, a, b string) bool {
	if a == b {
		return true
	}
	switch kindOf(key) {
	case number:
		return sameNumber(a, b)
	case boolean:
		return sameBool(a, b)
	case list:
		return slices.Equal(entries(a), entries(b))
	case text:
	}
	return false
}

// longestNumber keeps a text that only looks like a number from being expanded: 1e999999999 has as many digits.
const longestNumber = 32

func sameNumber(a, b string) bool {
	x, isNumber := parse(a)
	y, isOther := parse(b)
	return isNumber && isOther && x.Cmp(y) == 0
}

func parse(value string) (*big.Rat, bool) {
	value = strings.TrimSpace(value)
	if len(value) > longestNumber {
		return nil, false
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(value), "e")
	if strings.ContainsAny(mantissa, "/_xobp") {
		return nil, false
	}
	if power, err := strconv.Atoi(exponent); hasExponent && (err != nil || power > longestNumber || power < -longestNumber) {
		return nil, false
	}
	return new(big.Rat).SetString(value)
}

// Integer is the value of a property that is a whole number, and whether it is one.
func Integer(value string) (int64, bool) {
	number, is := parse(value)
	if !is || !number.IsInt() || !number.Num().IsInt64() {
		return 0, false
	}
	return number.Num().Int64(), true
}

func sameBool(a, b string) bool {
	x, y := strings.ToLower(strings.TrimSpace(a)), strings.ToLower(strings.TrimSpace(b))
	return x == y && (x == "true" || x == "false")
}

// entries are those of a list, whose order counts.
func entries(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	split := strings.Split(value, ",")
	for i := range split {
		split[i] = strings.TrimSpace(split[i])
	}
	return split
}

// The properties by which tools that move replicas limit what that takes.
const (
	leaderThrottle   = "leader.replication.throttled.replicas"
	followerThrottle = "follower.replication.throttled.replicas"
)

// IsThrottle reports whether tools that move replicas set and remove a property themselves.
func IsThrottle(key string) bool { return key == leaderThrottle || key == followerThrottle }

// ConfigChange is what to change of the properties that a topic sets.
type ConfigChange struct {
	Set    map[string]string
	Remove []string
}

// IsNone reports whether nothing changes.
func (c ConfigChange) IsNone() bool { return len(c.Set)+len(c.Remove) == 0 }

// Apply is what a topic sets after a change.
func (c ConfigChange) Apply(config map[string]string) map[string]string {
	after := make(map[string]string, len(config)+len(c.Set))
	for key, value := range config {
		if !slices.Contains(c.Remove, key) {
			after[key] = value
		}
	}
	maps.Copy(after, c.Set)
	return after
}

// DiffConfig makes a topic set what is wanted, and nothing else but what tools that move replicas set.
func DiffConfig(held, wanted map[string]string) ConfigChange {
	change := ConfigChange{Set: map[string]string{}}
	for key, value := range wanted {
		if has, isSet := held[key]; !isSet || !SameValue(key, has, value) {
			change.Set[key] = value
		}
	}
	for key := range held {
		if _, isWanted := wanted[key]; !isWanted && !IsThrottle(key) {
			change.Remove = append(change.Remove, key)
		}
	}
	slices.Sort(change.Remove)
	return change
}
