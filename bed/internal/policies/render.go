package policies

import (
	"fmt"
	"net/netip"
	"strings"
)

// table is the nftables table that the bed enforces policies with. Nobody else writes to it.
const table = "inet keyturn-policies"

// render writes what the kernel is to do, in the language of nft: one transaction that puts a new table in the place of
// the old one. Packets that nobody guards against go on; those of connections that stand do, too, as with most networks;
// trusted is the interface of the machine. What a pod sends to itself never leaves it, but by way of a Service it does.
func render(all []guarded, trusted string) string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line("table %s", table)
	line("delete table %s", table)
	line("table %s {", table)
	for _, g := range all {
		line("  chain %s {", chain(g.address))
		line("    ip saddr %s accept", g.address)
		for _, d := range g.doors {
			for _, rule := range d.rules() {
				line("    %saccept", rule)
			}
		}
		line("    drop")
		line("  }")
	}
	line("  chain forward {")
	line("    type filter hook forward priority filter; policy accept;")
	line("    iifname %q accept", trusted)
	line("    ct state established,related accept")
	for _, g := range all {
		line("    ip daddr %s goto %s", g.address, chain(g.address))
	}
	line("  }")
	line("}")
	return text.String()
}

func chain(address netip.Addr) string {
	return "to-" + strings.ReplaceAll(address.String(), ".", "-")
}

// rules are the conditions under which a door lets a packet in, each with a space behind it.
func (d door) rules() []string {
	port := ""
	if d.protocol != "" {
		port = fmt.Sprintf("%s dport %d-%d ", strings.ToLower(string(d.protocol)), d.first, d.last)
	}
	if d.protocol != "" && d.first == d.last {
		port = fmt.Sprintf("%s dport %d ", strings.ToLower(string(d.protocol)), d.first)
	}
	if d.anybody {
		return []string{port}
	}
	rules := make([]string, 0, len(d.from))
	for _, from := range d.from {
		rules = append(rules, from.condition()+port)
	}
	return rules
}

func (s source) condition() string {
	var condition strings.Builder
	fmt.Fprintf(&condition, "ip saddr %s ", s.within)
	for _, except := range s.except {
		fmt.Fprintf(&condition, "ip saddr != %s ", except)
	}
	return condition.String()
}
