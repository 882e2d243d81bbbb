// Package build reports how the running program was built.
package build

import "runtime/debug"

// Version is what the Go toolchain recorded about the build: the tag or the
// pseudo-version of the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
