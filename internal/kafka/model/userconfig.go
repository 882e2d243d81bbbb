package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Properties that are read from the user's configuration.
const (
	minInsyncReplicas        = "min.insync.replicas"
	defaultReplicationFactor = "default.replication.factor"
)

// forbiddenPrefixes are the beginnings of property names that Keyturn sets
// itself, or that would undo what it promises. They are Strimzi's.
func forbiddenPrefixes() []string {
	return []string{
		"listeners", "advertised.", "broker.", "listener.", "host.name", "port", "inter.broker.listener.name",
		"sasl.", "ssl.", "security.", "password.", "log.dir", "authorizer.", "super.user",
		"zookeeper.connect", "zookeeper.set.acl", "zookeeper.ssl", "zookeeper.clientcnxnsocket", "zookeeper.metadata.migration.enable",
		"cruise.control.metrics.topic", "cruise.control.metrics.reporter.bootstrap.servers",
		"node.id", "process.roles", "controller.", "metadata.log.dir", "cordoned.log.dirs",
		"client.quota.callback.static.",
	}
}

// allowedProperties are exceptions from forbiddenPrefixes. They are Strimzi's.
func allowedProperties() []string {
	return []string{
		"zookeeper.connection.timeout.ms",
		"sasl.server.max.receive.size",
		"ssl.cipher.suites", "ssl.protocol", "ssl.enabled.protocols", "ssl.secure.random.implementation",
		"cruise.control.metrics.topic.num.partitions", "cruise.control.metrics.topic.replication.factor",
		"cruise.control.metrics.topic.retention.ms", "cruise.control.metrics.topic.auto.create.retries",
		"cruise.control.metrics.topic.auto.create.timeout.ms", "cruise.control.metrics.topic.min.insync.replicas",
		"controller.quorum.election.backoff.max.ms", "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
		"broker.session.timeout.ms", "broker.heartbeat.interval.ms", "controller.socket.timeout.ms",
	}
}

// forbiddenProperty reports whether a user may not set the property.
func forbiddenProperty(key string) bool {
	lower := strings.ToLower(key)
	if lower == "" {
		return true
	}
	if slices.Contains(allowedProperties(), lower) || allowedListenerProperty(lower) {
		return false
	}
	return slices.ContainsFunc(forbiddenPrefixes(), func(prefix string) bool { return strings.HasPrefix(lower, prefix) })
}

// allowedListenerProperty lets the limits of connections be set per listener.
func allowedListenerProperty(key string) bool {
	rest, found := strings.CutPrefix(key, "listener.name.")
	if !found {
		return false
	}
	_, property, found := strings.Cut(rest, ".")
	return found && (property == "connections.max.reauth.ms" || property == "max.connection.creation.rate" ||
		property == "max.connections" || strings.HasPrefix(property, "max.connections."))
}

// filterConfig splits the user's configuration into what is taken over and the
// sorted names of what is dropped. Space around names and values is removed, as
// a properties file would not keep it.
func filterConfig(config map[string]string) (taken Properties, dropped []string) {
	taken = Properties{}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		name := strings.TrimSpace(key)
		if forbiddenProperty(name) {
			dropped = append(dropped, key)
			continue
		}
		taken[name] = strings.TrimSpace(config[key])
	}
	return taken, dropped
}

// resolveConfig takes over the user's broker configuration.
func (r *resolver) resolveConfig(brokers int) Properties {
	spec := map[string]string{}
	for key, value := range r.in.Kafka.Spec.Kafka.Config {
		spec[key] = string(value)
	}
	config, dropped := filterConfig(spec)
	if len(dropped) > 0 {
		r.warnf(r.kafkaObject(), ReasonForbiddenConfig,
			"these properties of spec.kafka.config are set by the operator and were dropped: %s; remove them", strings.Join(dropped, ", "))
	}
	r.checkPlaceholders(config)
	r.checkReplication(config, brokers)
	r.warnReplication(config, brokers)
	r.warnInternalTopics(config, brokers)
	return config
}

// checkPlaceholders refuses references to the configuration providers that
// Strimzi declares in every node. They read environment variables and files that
// its templates put there; here Kafka would take the reference for the value.
func (r *resolver) checkPlaceholders(config Properties) {
	declared := strings.Split(config["config.providers"], ",")
	for i := range declared {
		declared[i] = strings.TrimSpace(declared[i])
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		for _, provider := range []string{"strimzienv", "strimzidir", "strimzifile", "strimzisecrets"} {
			if strings.Contains(config[key], "${"+provider+":") && !slices.Contains(declared, provider) {
				r.errorf(r.kafkaObject(), "spec.kafka.config: %s refers to ${%s:...}, which Keyturn does not resolve, so Kafka would take that text for the value: write the value, or declare a provider of that name in config.providers", key, provider)
			}
		}
	}
}

// checkReplication refuses internal topics that could never be created.
func (r *resolver) checkReplication(config Properties, brokers int) {
	for _, key := range []string{
		defaultReplicationFactor,
		"offsets.topic.replication.factor",
		"share.coordinator.state.topic.min.isr",
		"share.coordinator.state.topic.replication.factor",
		"transaction.state.log.min.isr",
		"transaction.state.log.replication.factor",
	} {
		text, set := config[key]
		if !set {
			continue
		}
		value, err := strconv.Atoi(text)
		switch {
		case err != nil:
			r.errorf(r.kafkaObject(), "spec.kafka.config: %s is %q: set it to a whole number", key, text)
		case value > brokers && brokers > 0:
			r.errorf(r.kafkaObject(), "spec.kafka.config: %s is %d, but there are only %d brokers: lower it or add brokers", key, value, brokers)
		}
	}
}

// warnInternalTopics reports topics of Kafka's own that cannot be created with
// the replication they have by default, so that consumer groups or transactions
// do not work and nothing says why.
func (r *resolver) warnInternalTopics(config Properties, brokers int) {
	const byDefault = 3
	if brokers < 1 || brokers >= byDefault {
		return
	}
	missing := []string{}
	for _, key := range []string{"offsets.topic.replication.factor", "transaction.state.log.replication.factor"} {
		if _, set := config[key]; !set {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		r.warnf(r.kafkaObject(), ReasonInternalTopics,
			"spec.kafka.config does not set %s, and the default is %d, more than the cluster has brokers (%d): consumer groups or transactions will not work until it is set to at most %d",
			strings.Join(missing, " and "), byDefault, brokers, brokers)
	}
}

// warnReplication reports values that lose data or stop producers.
func (r *resolver) warnReplication(config Properties, brokers int) {
	factorText, factorSet := config[defaultReplicationFactor]
	insyncText, insyncSet := config[minInsyncReplicas]
	if brokers > 1 && !factorSet {
		r.warnf(r.kafkaObject(), ReasonDefaultReplicationFactor,
			"default.replication.factor is not set and defaults to 1: new topics would live on one broker only; set it in spec.kafka.config")
	}
	if brokers > 1 && !insyncSet {
		r.warnf(r.kafkaObject(), ReasonMinInsyncReplicas,
			"min.insync.replicas is not set and defaults to 1: acknowledged records may be on one broker only; set it in spec.kafka.config")
	}
	insync, err := strconv.Atoi(insyncText)
	if insyncSet && err != nil {
		r.errorf(r.kafkaObject(), "spec.kafka.config: min.insync.replicas is %q: set it to a whole number", insyncText)
	}
	r.warnInsync(insync, factorText, brokers)
}

// warnInsync compares the least number of replicas in sync with those there are.
func (r *resolver) warnInsync(insync int, factorText string, brokers int) {
	factor := 1
	if value, err := strconv.Atoi(factorText); err == nil {
		factor = value
	}
	switch {
	case insync > brokers && brokers > 0:
		r.warnf(r.kafkaObject(), ReasonMinInsyncReplicas,
			"min.insync.replicas is %d, but there are only %d brokers: Kafka asks for as many as there are, so that no broker can restart without refusing producers with acks=all; lower it", insync, brokers)
	case insync > factor:
		r.warnf(r.kafkaObject(), ReasonMinInsyncReplicas,
			"min.insync.replicas is %d, but new topics have %d replicas: Kafka asks for as many as there are, so that no broker can restart without refusing producers with acks=all; raise default.replication.factor or lower min.insync.replicas", insync, factor)
	case insync > 1 && insync == factor:
		r.warnf(r.kafkaObject(), ReasonMinInsyncReplicas,
			"min.insync.replicas and the replicas of new topics are both %d: no broker can restart without refusing producers with acks=all; lower min.insync.replicas or raise default.replication.factor", insync)
	}
}
