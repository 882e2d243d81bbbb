package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/release"
)

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
	Format release.MetadataVersion
	// Desired is what the cluster is to be raised to once every node runs a
	// Kafka version that knows it.
	Desired release.MetadataVersion
}

// Due reports whether the metadata version is to be raised now. current is what
// the cluster has finalized, running are the Kafka versions of all nodes as the
// nodes themselves report them: one that is missing is given as "", and keeps
// the cluster where it is.
func (p MetadataPlan) Due(current release.MetadataVersion, running []string) bool {
	if len(running) == 0 || current.Level() == 0 || p.Desired.Level() <= current.Level() {
		return false
	}
	for _, version := range running {
		if release.NewestMetadata(version).Level() < p.Desired.Level() {
			return false
		}
	}
	return true
}

// resolveVersion chooses the Kafka version and its image.
func (r *resolver) resolveVersion() KafkaVersion {
	versions := slices.SortedFunc(slices.Values(r.in.Settings.Versions), func(a, b KafkaVersion) int {
		return release.Compare(a.Name, b.Name)
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
	slices.SortFunc(supported, func(a, b KafkaVersion) int { return release.Compare(a.Name, b.Name) })
	return "set spec.kafka.version to one of " + joinVersions(supported)
}

// isSupported reports whether nodes of a Kafka version can be run.
func isSupported(version string) bool {
	_, is := release.Of(version)
	return is
}

// resolveMetadata decides which metadata version new storage gets and which one
// the cluster aims at. The server binaries roll first, under the version the
// cluster has; what they cannot read must never be finalized, and what has been
// finalized cannot be taken back.
func (r *resolver) resolveMetadata(kafka KafkaVersion) MetadataPlan {
	if kafka.Name == "" {
		return MetadataPlan{}
	}
	newest := release.NewestMetadata(kafka.Name)
	if !isSupported(kafka.Name) {
		r.errorf(r.kafkaObject(), "Kafka %s is in kafkaImages, but this operator does not support it: %s", kafka.Name, r.supportedInstead())
		return MetadataPlan{}
	}
	desired := newest
	if wanted := r.in.Kafka.Spec.Kafka.MetadataVersion; wanted != "" {
		version, known := release.ParseMetadataVersion(wanted)
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

// checkLimits refuses values with which brokers of the version do not start.
func (r *resolver) checkLimits(kafka KafkaVersion, config Properties) {
	of, _ := release.Of(kafka.Name)
	for _, limit := range of.Limits {
		value, err := strconv.ParseInt(config[limit.Key], 10, 64)
		if err == nil && value < limit.AtLeast {
			r.errorf(r.kafkaObject(), "spec.kafka.config: %s is %d, and brokers of Kafka %s do not start with less than %d: raise it, or remove it for the default",
				limit.Key, value, kafka.Name, limit.AtLeast)
		}
	}
}

func (r *resolver) warnMetadata(kafka KafkaVersion, current, desired release.MetadataVersion) {
	switch newest := release.NewestMetadata(kafka.Name); {
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

func maxMetadata(a, b release.MetadataVersion) release.MetadataVersion {
	if a.Level() >= b.Level() {
		return a
	}
	return b
}
