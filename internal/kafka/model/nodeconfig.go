package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// Time that a pod has to stop. A node that is stopped in time hands over its
// partitions and writes a clean mark; one that is killed has to recover its logs.
const (
	podGraceSeconds = 60
	// agentReserveSeconds of them are the agent's, to notice and to exit.
	agentReserveSeconds = 5
)

// AgentConfig is the part of a node's configuration that the agent acts on.
func (c Cluster) AgentConfig(node Node) contract.Config {
	pool, _ := c.Pool(node.Pool)
	config := contract.Config{
		Cluster:      c.Names.Cluster,
		Namespace:    c.Names.Namespace,
		PodName:      node.Pod,
		NodeID:       int32(node.ID),
		Roles:        node.Roles.List(),
		Stores:       c.Stores(node),
		JavaOptions:  pool.javaOptions(),
		GraceSeconds: podGraceSeconds - agentReserveSeconds,
	}
	for _, volume := range pool.Volumes {
		if volume.Metadata {
			config.DataDirs = append([]string{volume.LogDir(node.ID)}, config.DataDirs...)
			continue
		}
		config.DataDirs = append(config.DataDirs, volume.LogDir(node.ID))
	}
	return config
}

// NodeConfig is the data of the ConfigMap of one node.
func (c Cluster) NodeConfig(node Node) (map[string]string, error) {
	agent, err := c.AgentConfig(node).Encode()
	if err != nil {
		return nil, fmt.Errorf("configuring pod %s: %w", node.Pod, err)
	}
	logging, config := c.logging()
	return map[string]string{
		contract.ServerConfigKey:    c.ServerConfig(node).Encode(),
		contract.AgentConfigKey:     string(agent),
		contract.ClusterIDKey:       c.ClusterID,
		contract.MetadataVersionKey: string(c.Metadata.Format),
		logging:                     config,
	}, nil
}

// logging is the configuration of the server's log, and the key that it has.
func (c Cluster) logging() (key, config string) {
	if of, _ := release.Of(c.Version.Name); of.Logging == release.Log4j1 {
		return contract.Log4j1Key, log4j1Config
	}
	return contract.LoggingKey, log4j2Config
}

// ConfigurationHash is the contract's hash of what NodeConfig returns.
func ConfigurationHash(data map[string]string) string {
	return contract.ConfigurationHash(func(key string) []byte { return []byte(data[key]) })
}

// stub is an 8-digit digest for people to compare. The parts are digested with
// their lengths, so that text moved from one to the next makes a difference.
func stub(parts ...string) string {
	digest := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write([]byte(part))
	}
	return hex.EncodeToString(digest.Sum(nil))[:8]
}

// log4j1Config is log4j2Config for servers that have log4j 1. Its loggers are those of the log4j.properties that Kafka
// 3.9 ships.
const log4j1Config = `log4j.rootLogger=INFO, stdout

log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.EnhancedPatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %p [%t] %c: %m%n

log4j.logger.kafka.request.logger=WARN
log4j.logger.kafka.network.RequestChannel$=WARN
log4j.logger.org.apache.kafka.storage.internals.log.LogCleaner=INFO
log4j.logger.state.change.logger=INFO
log4j.logger.kafka.authorizer.logger=INFO
`

// log4j2Config sends the server's log to standard output. The loggers that are
// turned down are those of the log4j2.yaml that Kafka 4.3.1 ships.
const log4j2Config = `name = KafkaConfig

appender.console.type = Console
appender.console.name = STDOUT
appender.console.target = SYSTEM_OUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}{UTC} %p [%t] %c: %m%n%throwable

rootLogger.level = INFO
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = STDOUT

logger.request.name = kafka.request.logger
logger.request.level = WARN
logger.requestchannel.name = kafka.network.RequestChannel$
logger.requestchannel.level = WARN
logger.cleaner.name = org.apache.kafka.storage.internals.log.LogCleaner
logger.cleaner.level = INFO
logger.statechange.name = state.change.logger
logger.statechange.level = INFO
logger.authorizer.name = kafka.authorizer.logger
logger.authorizer.level = INFO
`
