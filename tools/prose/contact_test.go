package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// privateReport is the address where people report privately.
var privateReport = regexp.MustCompile(`https://\S+/security/advisories/new`)

func TestPagesNameOneAddressForPrivateReports(t *testing.T) {
	t.Parallel()
	var first string
	for _, page := range []string{"SECURITY.md", "CODE_OF_CONDUCT.md", ".github/ISSUE_TEMPLATE/config.yml"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		found := privateReport.FindString(string(text))
		if first == "" {
			first = found
		}
		if found == "" || found != first {
			t.Errorf("%s names the address %q, SECURITY.md %q", page, found, first)
		}
	}
}
