// Package build says what the running program was built from.
package build

import (
	"runtime/debug"
	"strings"
)

// version is set by the linker in a release (tools/release).
var version string

// Version is that of the release, without a v as in charts, labels and tags of images. Otherwise it is what the Go
// toolchain recorded about the build: the tag or the pseudo-version of the commit.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
