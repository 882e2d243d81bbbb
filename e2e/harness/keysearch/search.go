package keysearch

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Search collects the private keys of all places that it has looked at, and the certificates
// that were issued.
type Search struct {
	rules []Rule
	// own are the places where no private key may be, whether a certificate is known or not.
	own    *regexp.Regexp
	looked int
	// known are texts without a private key or a certificate, by their SHA-256: most of what a
	// cluster stores never changes.
	known        map[[sha256.Size]byte]bool
	places       map[KeyID]map[string]bool
	certificates map[KeyID]*x509.Certificate
	issued       map[KeyID]bool
}

// Rule allows the keys of some certificates in some places.
type Rule struct {
	Place *regexp.Regexp
	Of    func(*x509.Certificate) bool
}

// New returns a search. Places that match own may have no private key but by a rule.
func New(own *regexp.Regexp, rules ...Rule) *Search {
	return &Search{
		rules: rules, own: own, known: map[[sha256.Size]byte]bool{}, places: map[KeyID]map[string]bool{},
		certificates: map[KeyID]*x509.Certificate{}, issued: map[KeyID]bool{},
	}
}

// Look looks at what is in a place.
func (s *Search) Look(place string, data []byte) {
	s.looked++
	sum := sha256.Sum256(data)
	if s.known[sum] {
		return
	}
	found := scan(data)
	s.known[sum] = len(found.private) == 0 && len(found.certificates) == 0
	for key := range found.private {
		if s.places[key] == nil {
			s.places[key] = map[string]bool{}
		}
		s.places[key][place] = true
	}
	if s.own.MatchString(place) {
		maps.Copy(s.certificates, found.certificates)
	}
}

// LookInto looks at all texts below a value, as JSON has them.
func (s *Search) LookInto(place string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			s.LookInto(place+"."+key, value[key])
			s.Look(place+" keys", []byte(key))
		}
	case []any:
		for _, element := range value {
			s.LookInto(place+"[]", element)
		}
	case string:
		s.Look(place, []byte(value))
	}
}

// Issued adds a key for which a certificate was issued, by the hex of its SHA-256.
func (s *Search) Issued(key KeyID) { s.issued[key] = true }

// Looked is how many texts were looked at, and Certificates how many keys have certificates.
func (s *Search) Looked() int { return s.looked }

// Certificates see Looked.
func (s *Search) Certificates() int {
	keys := maps.Clone(s.issued)
	for key := range s.certificates {
		keys[key] = true
	}
	return len(keys)
}

// Problems are the private keys that are where no rule allows them: keys of certificates
// that were issued anywhere, and all keys in own places.
func (s *Search) Problems() []string {
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(s.places)) {
		certificate := s.certificates[key]
		for _, place := range slices.Sorted(maps.Keys(s.places[key])) {
			isOurs := certificate != nil || s.issued[key] || s.own.MatchString(place)
			if isOurs && !s.allows(place, certificate) {
				problems = append(problems, fmt.Sprintf("%s has the private key of %s", place, s.nameOf(key)))
			}
		}
	}
	return problems
}

func (s *Search) allows(place string, certificate *x509.Certificate) bool {
	return certificate != nil && slices.ContainsFunc(s.rules, func(rule Rule) bool {
		return rule.Place.MatchString(place) && rule.Of(certificate)
	})
}

func (s *Search) nameOf(key KeyID) string {
	switch certificate := s.certificates[key]; {
	case certificate != nil:
		return fmt.Sprintf("%s, issued by %s", certificate.Subject, certificate.Issuer)
	case s.issued[key]:
		return fmt.Sprintf("an issued certificate for key %s", key)
	default:
		return string(key)
	}
}
