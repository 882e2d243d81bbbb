package cli

import "runtime/debug"

// version is what the Go toolchain recorded about the build: the tag or the
// pseudo-version of the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
