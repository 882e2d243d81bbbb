package release

import (
	"fmt"
	"strings"
)

// MetadataVersion is a KRaft metadata version such as "4.3-IV0".
type MetadataVersion string

// Level is the feature level of metadata.version in the cluster's metadata, 0
// for a version that is not known.
func (v MetadataVersion) Level() int16 {
	for _, row := range metadataVersions() {
		if row.version == v {
			return row.level
		}
	}
	return 0
}

// MetadataVersionOf returns the metadata version with that feature level, or the
// level in words where there is none for production.
func MetadataVersionOf(level int16) MetadataVersion {
	for _, row := range metadataVersions() {
		if row.level == level {
			return row.version
		}
	}
	return MetadataVersion(fmt.Sprintf("level %d", level))
}

// NewestMetadata is the newest metadata version that a Kafka version knows and
// that is meant for production, empty when the version is not known.
func NewestMetadata(kafka string) MetadataVersion {
	minor, isVersion := minorOf(kafka)
	if !isVersion {
		return ""
	}
	newest := MetadataVersion("")
	for _, row := range metadataVersions() {
		if strings.HasPrefix(string(row.version), minor+"-IV") {
			newest = row.version
		}
	}
	return newest
}

// ParseMetadataVersion reads spec.kafka.metadataVersion, which is a full version
// such as "4.3-IV0" or a release such as "4.3" or "4.3.1" that stands for its
// newest. The second result is false when Keyturn knows no such version.
func ParseMetadataVersion(text string) (MetadataVersion, bool) {
	if version := MetadataVersion(text); version.Level() > 0 {
		return version, true
	}
	version := NewestMetadata(text)
	return version, version != ""
}

type metadataRow struct {
	version MetadataVersion
	level   int16
}

// metadataVersions lists the metadata versions for production, ascending. Read
// from org.apache.kafka.server.common.MetadataVersion in the jars
// kafka-server-common 4.2.1 (LATEST_PRODUCTION is 4.2-IV1, level 29) and 4.3.1
// (LATEST_PRODUCTION is 4.3-IV0, level 30) of Maven Central. The number before
// "-IV" is the minor release that brought the version.
func metadataVersions() []metadataRow {
	return []metadataRow{
		{"3.3-IV3", 7},
		{"3.4-IV0", 8},
		{"3.5-IV0", 9},
		{"3.5-IV1", 10},
		{"3.5-IV2", 11},
		{"3.6-IV0", 12},
		{"3.6-IV1", 13},
		{"3.6-IV2", 14},
		{"3.7-IV0", 15},
		{"3.7-IV1", 16},
		{"3.7-IV2", 17},
		{"3.7-IV3", 18},
		{"3.7-IV4", 19},
		{"3.8-IV0", 20},
		{"3.9-IV0", 21},
		{"4.0-IV0", 22},
		{"4.0-IV1", 23},
		{"4.0-IV2", 24},
		{"4.0-IV3", 25},
		{"4.1-IV0", 26},
		{"4.1-IV1", 27},
		{"4.2-IV0", 28},
		{"4.2-IV1", 29},
		{"4.3-IV0", 30},
	}
}
