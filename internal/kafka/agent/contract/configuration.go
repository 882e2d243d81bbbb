package contract

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ConfigurationHash digests what a server reads when it starts: its properties,
// the agent's configuration and the logging configuration. The cluster id and
// the metadata version are left out: they matter only when storage is formatted.
//
// The operator names it in the publication, and the agent compares it with what
// is mounted: a kubelet may mount a ConfigMap that it has cached. entry returns
// the content of a key of the ConfigMap.
func ConfigurationHash(entry func(key string) []byte) string {
	digest := sha256.New()
	keys := []string{ServerConfigKey, AgentConfigKey, LoggingKey}
	if len(entry(Log4j1Key)) > 0 { // nodes without it keep the hash that they have
		keys = append(keys, Log4j1Key)
	}
	for _, key := range keys {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(entry(key))))
		digest.Write(length[:])
		digest.Write(entry(key))
	}
	return hex.EncodeToString(digest.Sum(nil))[:configurationHashLength]
}

// configurationHashLength is short enough for people to compare.
const configurationHashLength = 8
