package binding

import (
	"maps"
	"slices"
	"strings"
)

// Part is one of the things that a Secret holds. Each can change while another one is unknown.
type Part string

// The parts of a Secret.
const (
	Address     Part = "address"
	Truststore  Part = "truststore"
	Credentials Part = "credentials"
)

func parts() []Part { return []Part{Address, Truststore, Credentials} }

// partOf is the part that a key of a Secret belongs to.
func partOf(key string) Part {
	switch {
	case strings.HasPrefix(key, trustKeys):
		return Truststore
	case strings.HasPrefix(key, identityKeys):
		return Credentials
	case slices.Contains([]string{username, usernameAlias, userPassword, userJAAS, mechanism, mechanismAlias}, key):
		return Credentials
	default:
		return Address
	}
}

// layoutOf is the layout of a Secret.
func layoutOf(held map[string][]byte) Layout {
	for alias := range aliases() {
		if _, there := held[alias]; there {
			return PEM
		}
	}
	return Stores
}

// Follow returns what a Secret has to hold: each part of the connection, but for those that are unknown or cannot be used.
// These stay as they were written. held is all that the Secret holds.
func (c *Connection) Follow(written, held map[string][]byte, unknown []Part) map[string][]byte {
	followed := map[string][]byte{}
	for _, part := range parts() {
		data, err := c.data(part, layoutOf(held), held)
		if err != nil || slices.Contains(unknown, part) {
			data = maps.Clone(written)
			maps.DeleteFunc(data, func(key string, _ []byte) bool { return partOf(key) != part })
		}
		maps.Copy(followed, data)
	}
	return followed
}
