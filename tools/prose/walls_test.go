package prose

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rooms are those of every kind of server: a rule of trust or of certificates is changed
// there once, for all of them.
func rooms() []string {
	return []string{"agent", "agent/client", "agent/health", "agent/install", "agent/mount", "agent/process", "agent/server", "agent/status", "authority", "domain", "evidence", "excerpt", "idle", "issuer", "kube", "kube/networkpolicy", "mtls", "operate", "pki", "publication", "records", "reports", "rotation", "trust", "unattended", "unattended/controller", "window"}
}

// foreign are the words of one kind of server.
var foreign = regexp.MustCompile(`(?i)etcd|kafka|broker|kraft|\braft|strimzi`)

func TestSharedRoomsSpeakOfNoKindOfServer(t *testing.T) {
	t.Parallel()
	for _, room := range rooms() {
		code := files(t, filepath.Join(root, "internal", room), ".go")
		if len(code) == 0 {
			t.Errorf("there is no room internal/%s", room)
		}
		for path, text := range code {
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
				continue
			}
			number := 0
			for line := range strings.Lines(text) {
				number++
				if word := foreign.FindString(line); word != "" {
					t.Errorf("%s:%d says %q, a word of one kind of server: %s", strings.TrimPrefix(path, root+"/"), number, word, strings.TrimSpace(line))
				}
			}
		}
	}
}
