package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// SANs are the names a leaf is valid for. The fields are sorted and free of
// duplicates when made by NewSANs.
type SANs struct {
	DNS []string
	IPs []netip.Addr
}

// NewSANs sorts values into IP addresses and DNS names and checks their syntax:
// labels of letters, digits and hyphens with 1 to 63 characters, at most 255 in
// all, optionally a leading "*." and a trailing dot, which is taken with and without:
// the JVM matches only the name without. All wrong values are reported together.
func NewSANs(values ...string) (SANs, error) {
	var sans SANs
	var errs []error
	for _, value := range values {
		if addr, err := netip.ParseAddr(value); err == nil {
			if addr.Zone() != "" {
				errs = append(errs, fmt.Errorf("address %q has a zone, which no certificate can carry", value))
				continue
			}
			sans.IPs = append(sans.IPs, addr.Unmap())
			continue
		}
		if err := checkDNS(value); err != nil {
			errs = append(errs, err)
			continue
		}
		sans.DNS = append(sans.DNS, value, strings.TrimSuffix(value, "."))
	}
	if len(errs) > 0 {
		return SANs{}, errors.Join(errs...)
	}
	return sans.sorted(), nil
}

// SANsOf returns the names of a certificate. Addresses that are not 4 or 16
// bytes long are left out.
func SANsOf(cert *x509.Certificate) SANs {
	sans := SANs{DNS: slices.Clone(cert.DNSNames)}
	for _, raw := range cert.IPAddresses {
		if addr, ok := netip.AddrFromSlice(raw); ok {
			sans.IPs = append(sans.IPs, addr.Unmap())
		}
	}
	return sans.sorted()
}

func (s SANs) sorted() SANs {
	slices.Sort(s.DNS)
	s.DNS = slices.Compact(s.DNS)
	slices.SortFunc(s.IPs, netip.Addr.Compare)
	s.IPs = slices.Compact(s.IPs)
	return s
}

// IsEmpty tells whether there is no name at all.
func (s SANs) IsEmpty() bool { return len(s.DNS) == 0 && len(s.IPs) == 0 }

// Values returns all names as text, DNS names first.
func (s SANs) Values() []string {
	values := slices.Clone(s.DNS)
	for _, ip := range s.IPs {
		values = append(values, ip.String())
	}
	return values
}

// Equal compares the sets of values. Order does not count, nor the letter case
// of DNS names.
func (s SANs) Equal(other SANs) bool {
	return slices.Equal(canonical(s), canonical(other))
}

// Lacks returns the values of wanted that s does not have literally, sorted.
func (s SANs) Lacks(wanted SANs) []string {
	have := canonical(s)
	return slices.DeleteFunc(canonical(wanted), func(v string) bool { return slices.Contains(have, v) })
}

// Uncovered returns the values of wanted for which a peer that presents s would
// be refused, sorted. A wildcard in s covers one label, and a name in s that ends in a
// dot covers none, as verifiers have it.
func (s SANs) Uncovered(wanted SANs) []string {
	var missing []string
	for _, name := range wanted.DNS {
		if !slices.ContainsFunc(s.DNS, func(have string) bool { return covers(have, name) }) {
			missing = append(missing, name)
		}
	}
	for _, ip := range wanted.IPs {
		if !slices.Contains(s.IPs, ip) {
			missing = append(missing, ip.String())
		}
	}
	slices.Sort(missing)
	return missing
}

func canonical(s SANs) []string {
	values := s.Values()
	for i := range values {
		values[i] = strings.ToLower(values[i])
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func covers(pattern, name string) bool {
	pattern = strings.ToLower(pattern)
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if pattern == name {
		return true
	}
	suffix, wildcard := strings.CutPrefix(pattern, "*.")
	_, parent, found := strings.Cut(name, ".")
	return wildcard && found && parent == suffix
}

func checkDNS(name string) error {
	if len(name) == 0 || len(name) > 255 {
		return fmt.Errorf("DNS name %q has %d characters: 1 to 255 are possible", name, len(name))
	}
	labels := strings.TrimSuffix(strings.TrimPrefix(name, "*."), ".")
	for label := range strings.SplitSeq(labels, ".") {
		if !isLabel(label) {
			return fmt.Errorf("%q is neither an IP address nor a DNS name: label %q needs 1 to 63 letters, digits or hyphens", name, label)
		}
	}
	return nil
}

func isLabel(label string) bool {
	if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(label, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}
