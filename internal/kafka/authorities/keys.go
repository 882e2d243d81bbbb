package authorities

import "strings"

// Prefixes of labels and annotations by which people and operators speak to each other.
const (
	StrimziPrefix = "strimzi.io/"
	keyturnPrefix = "keyturn.dev/"
	// certManagerPrefix is that of cert-manager, which marks by them the Secrets that it fills.
	certManagerPrefix = "cert-manager.io/"
)

// OwnKey reports whether people and operators speak to each other by the label or
// annotation.
func OwnKey(key string) bool {
	return strings.HasPrefix(key, StrimziPrefix) || strings.HasPrefix(key, keyturnPrefix) ||
		strings.HasPrefix(key, certManagerPrefix) || strings.Contains(key, "."+certManagerPrefix)
}
