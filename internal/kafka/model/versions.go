package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// MetadataVersion is a KRaft metadata version such as "4.3-IV0".
type MetadataVersion string

// KafkaVersion is a version of Apache Kafka that can be run.
type KafkaVersion struct {
	// Name is the version as it stands in spec.kafka.version.
	Name string
	// Image is the container image with this version under /opt/kafka.
	Image string
}

// MetadataPlan says what becomes of the metadata version.
type MetadataPlan struct {
	// Format is what the storage of a new node is formatted with: the version
	// of the running cluster, or Desired in a cluster that is being formed.
	Format MetadataVersion
	// Desired is what the cluster is to be raised to once every node runs a
	// Kafka version that knows it.
	Desired MetadataVersion
}

// Due reports whether the metadata version is to be raised now. current is what
// the cluster has finalized, running are the Kafka versions of all nodes as the
// nodes themselves report them: one that is missing is given as "", and keeps
// the cluster where it is.
func (p MetadataPlan) Due(current MetadataVersion, running []string) bool {
	if len(running) == 0 || current.Level() == 0 || p.Desired.Level() <= current.Level() {
		return false
	}
	for _, version := range running {
		if newestMetadata(version).Level() < p.Desired.Level() {
			return false
		}
	}
	return true
}

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

// MetadataVersionOf returns the metadata version with that feature level, and
// whether there is one for production.
func MetadataVersionOf(level int16) (MetadataVersion, bool) {
	for _, row := range metadataVersions() {
		if row.level == level {
			return row.version, true
		}
	}
	return "", false
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

// newestMetadata is the newest metadata version that a Kafka version knows and
// that is meant for production, empty when the version is not known.
func newestMetadata(kafka string) MetadataVersion {
	major, minor, ok := minorRelease(kafka)
	if !ok {
		return ""
	}
	return newestOf(strconv.Itoa(major) + "." + strconv.Itoa(minor))
}

// newestOf is the newest metadata version of a minor release such as "4.3".
func newestOf(release string) MetadataVersion {
	newest := MetadataVersion("")
	for _, row := range metadataVersions() {
		if strings.HasPrefix(string(row.version), release+"-IV") {
			newest = row.version
		}
	}
	return newest
}

// parseMetadataVersion reads spec.kafka.metadataVersion, which is a full version
// such as "4.3-IV0" or a release such as "4.3" or "4.3.1" that stands for its
// newest. The second result is false when Keyturn knows no such version.
func parseMetadataVersion(text string) (MetadataVersion, bool) {
	if version := MetadataVersion(text); version.Level() > 0 {
		return version, true
	}
	version := newestMetadata(text)
	return version, version != ""
}

func minorRelease(version string) (major, minor int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, false
	}
	numbers := make([]int, len(parts))
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return 0, 0, false
		}
		numbers[i] = int(number)
	}
	return numbers[0], numbers[1], true
}

// compareVersions orders dotted versions by their numbers; parts that are no
// numbers count as zero.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if order := cmp.Compare(versionPart(as, i), versionPart(bs, i)); order != 0 {
			return order
		}
	}
	return 0
}

func versionPart(parts []string, at int) uint64 {
	if at >= len(parts) {
		return 0
	}
	number, err := strconv.ParseUint(parts[at], 10, 32)
	if err != nil {
		return 0
	}
	return number
}

// resolveVersion chooses the Kafka version and its image.
func (r *resolver) resolveVersion() KafkaVersion {
	versions := slices.SortedFunc(slices.Values(r.in.Settings.Versions), func(a, b KafkaVersion) int {
		return compareVersions(a.Name, b.Name)
	})
	if len(versions) == 0 {
		r.errorf(r.kafkaObject(), "the operator has no Kafka image: start it with at least one version and its image")
		return KafkaVersion{}
	}
	spec := r.in.Kafka.Spec.Kafka
	chosen := versions[len(versions)-1]
	if spec.Version != "" {
		at := slices.IndexFunc(versions, func(v KafkaVersion) bool { return v.Name == spec.Version })
		if at < 0 {
			r.errorf(r.kafkaObject(), "spec.kafka.version %s is not supported: choose one of %s, or leave it out for %s",
				spec.Version, joinVersions(versions), chosen.Name)
			return chosen
		}
		chosen = versions[at]
	}
	if spec.Image != "" {
		chosen.Image = spec.Image
	}
	return chosen
}

func joinVersions(versions []KafkaVersion) string {
	names := make([]string, 0, len(versions))
	for _, version := range versions {
		names = append(names, version.Name)
	}
	return strings.Join(names, ", ")
}

// supportedInstead says what to do about a version that the operator has an image for and
// nothing else.
func (r *resolver) supportedInstead() string {
	var supported []KafkaVersion
	for _, version := range r.in.Settings.Versions {
		if isSupported(version.Name) {
			supported = append(supported, version)
		}
	}
	if len(supported) == 0 {
		return "add an image of a version that it supports to kafkaImages"
	}
	slices.SortFunc(supported, func(a, b KafkaVersion) int { return compareVersions(a.Name, b.Name) })
	return "set spec.kafka.version to one of " + joinVersions(supported)
}

// oldestServer is the first Kafka whose nodes get ready: agents ask them for fenced brokers, which older ones cannot tell.
const oldestServer = "4.0.0"

// isSupported reports whether nodes of a Kafka version can be run.
func isSupported(version string) bool {
	return newestMetadata(version) != "" && compareVersions(version, oldestServer) >= 0
}

// resolveMetadata decides which metadata version new storage gets and which one
// the cluster aims at. The server binaries roll first, under the version the
// cluster has; what they cannot read must never be finalized, and what has been
// finalized cannot be taken back.
func (r *resolver) resolveMetadata(kafka KafkaVersion) MetadataPlan {
	if kafka.Name == "" {
		return MetadataPlan{}
	}
	newest := newestMetadata(kafka.Name)
	if !isSupported(kafka.Name) {
		r.errorf(r.kafkaObject(), "Kafka %s is in kafkaImages, but this operator does not support it: %s", kafka.Name, r.supportedInstead())
		return MetadataPlan{}
	}
	desired := newest
	if wanted := r.in.Kafka.Spec.Kafka.MetadataVersion; wanted != "" {
		version, known := parseMetadataVersion(wanted)
		if !known || version.Level() > newest.Level() {
			r.errorf(r.kafkaObject(), "spec.kafka.metadataVersion %s is not known to Kafka %s: choose %s or an older one, or leave it out",
				wanted, kafka.Name, newest)
			return MetadataPlan{}
		}
		desired = version
	}
	current := r.in.Known.MetadataVersion
	if current == "" {
		return MetadataPlan{Format: desired, Desired: desired}
	}
	if current.Level() == 0 || current.Level() > newest.Level() {
		r.errorf(r.kafkaObject(), "spec.kafka.version %s does not know metadata version %s, which the cluster works with and which cannot be taken back: choose a newer version",
			kafka.Name, current)
		return MetadataPlan{}
	}
	r.warnMetadata(kafka, current, desired)
	return MetadataPlan{Format: current, Desired: maxMetadata(current, desired)}
}

func (r *resolver) warnMetadata(kafka KafkaVersion, current, desired MetadataVersion) {
	switch newest := newestMetadata(kafka.Name); {
	case desired.Level() < current.Level():
		r.warnf(r.kafkaObject(), ReasonMetadataVersion,
			"spec.kafka.metadataVersion %s is older than %s, which the cluster works with; the cluster stays at %s, because a metadata version cannot be taken back",
			desired, current, current)
	case desired.Level() < newest.Level():
		r.warnf(r.kafkaObject(), ReasonMetadataVersion,
			"spec.kafka.metadataVersion %s is older than %s, the newest of Kafka %s: raise it or leave it out to finish the upgrade",
			desired, newest, kafka.Name)
	}
}

func maxMetadata(a, b MetadataVersion) MetadataVersion {
	if a.Level() >= b.Level() {
		return a
	}
	return b
}
