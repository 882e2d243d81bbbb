package controller

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// What a status may hold. The API server refuses a message above maxMessage and an
// object above 1.5 MiB, and with it everything else that the status says.
const (
	// maxMessage is the longest message of a condition, in bytes.
	maxMessage = 32 << 10
	// maxWarnings and maxWarningBytes bound the Warning conditions together.
	maxWarnings     = 64
	maxWarningBytes = 256 << 10
	// maxCertificates is how many certificates of one listener are shown, and
	// maxCertificateBytes how many bytes of all of them.
	maxCertificates     = 64
	maxCertificateBytes = 512 << 10
)

// withinStatus cuts messages, and counts the warnings that there is no room for. What is
// no warning is always told.
func withinStatus(list []wanted) []wanted {
	var warnings, bytes, left int
	out := make([]wanted, 0, len(list))
	for _, w := range list {
		w.message = excerpt.Of(w.message, maxMessage)
		if w.kind == condition.Warning {
			if warnings >= maxWarnings || bytes+len(w.message) > maxWarningBytes {
				left++
				continue
			}
			warnings, bytes = warnings+1, bytes+len(w.message)
		}
		out = append(out, w)
	}
	if left == 0 {
		return out
	}
	last := slices.IndexFunc(out, func(w wanted) bool { return w.kind != condition.Warning })
	if last < 0 {
		last = len(out)
	}
	return slices.Insert(out, last, holds(condition.Warning, reasonMoreWarnings,
		fmt.Sprintf("and %d more: they appear once there is room, so resolve the warnings shown here first", left)))
}

// shown bounds what a status shows of the certificates of listeners. The result names the
// listeners whose certificates it does not show.
func (c *desired) shown(certificates listenerCertificates) (shown listenerCertificates, hidden []string) {
	room := maxCertificateBytes
	shown = listenerCertificates{}
	for _, listener := range c.cluster.Listeners {
		key := listener.Key()
		if !listener.TLS {
			continue
		}
		list := certificates[key]
		list = list[:min(len(list), maxCertificates)]
		bytes := 0
		for _, text := range list {
			bytes += len(text)
		}
		if bytes > room {
			hidden = append(hidden, listener.Name)
			continue
		}
		room -= bytes
		shown[key] = list
	}
	return shown, hidden
}
