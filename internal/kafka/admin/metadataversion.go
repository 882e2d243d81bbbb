package admin

import (
	"fmt"
	"strconv"
	"strings"
)

// firstLevel is the level of the oldest metadata version that Kafka 4 knows.
const firstLevel = 7

// Bounds of the table below, for people.
const (
	oldestRelease = "3.3"
	newestRelease = "4.3"
)

// metadataVersions are the names of consecutive levels from firstLevel on, read
// from org.apache.kafka.server.common.MetadataVersion of Kafka 4.3.1. 4.4-IV0 is
// left out: it was not final there.
func metadataVersions() []string {
	return []string{
		"3.3-IV3",
		"3.4-IV0",
		"3.5-IV0", "3.5-IV1", "3.5-IV2",
		"3.6-IV0", "3.6-IV1", "3.6-IV2",
		"3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
		"3.8-IV0",
		"3.9-IV0",
		"4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3",
		"4.1-IV0", "4.1-IV1",
		"4.2-IV0", "4.2-IV1",
		"4.3-IV0",
	}
}

// MetadataVersionName returns the name of a level, for example 4.3-IV0, or the
// level itself in words when this build does not know it.
func MetadataVersionName(level int16) string {
	names := metadataVersions()
	if i := int(level) - firstLevel; i >= 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("level %d", level)
}

// MetadataVersionLevel returns the level of a name. It accepts what Kafka's
// StorageTool accepts: 4.3-IV0, and 4.3 or 4.3.1 for the newest of the release.
func MetadataVersionLevel(name string) (int16, error) {
	release := releaseOf(name)
	level := int16(-1)
	for i, known := range metadataVersions() {
		if known == name || strings.HasPrefix(known, release+"-IV") && release != "" {
			level = int16(firstLevel + i)
		}
	}
	if level < 0 {
		return 0, &UnknownMetadataVersionError{Name: name}
	}
	return level, nil
}

// releaseOf returns major.minor of "4.3" and "4.3.1", and nothing of a name that
// is no release.
func releaseOf(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return ""
	}
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 10, 15); err != nil {
			return ""
		}
	}
	return parts[0] + "." + parts[1]
}
