package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Module is the path of the bed's own module.
const Module = "github.com/keyturn/keyturn/bed"

// FindSource looks for the bed's module from a directory upwards: in each directory itself and in its bed folder. The
// bed is run from the repository, whose nested modules it builds.
func FindSource(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "bed")} {
			text, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), "module "+Module+"\n") {
				return candidate, nil
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", fmt.Errorf("looking for the bed's sources: %w", err)
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("the bed's sources are not in %s or above; run the bed from the repository", from)
		}
	}
}
