package stores

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
)

// votersSetting lists the controllers as id@host:port.
const votersSetting = "controller.quorum.voters"

// Voters are the addresses of the control planes of all controllers, sorted, as
// the server's configuration names them.
func (m Matched) Voters() []string {
	var addresses []string
	lines := bufio.NewScanner(bytes.NewReader(m.ServerConfig))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.TrimSpace(name) != votersSetting {
			continue
		}
		for voter := range strings.SplitSeq(value, ",") {
			if _, address, ok := strings.Cut(strings.TrimSpace(voter), "@"); ok {
				addresses = append(addresses, address)
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}
