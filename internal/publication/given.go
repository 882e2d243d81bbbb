package publication

import (
	"encoding/json"
	"slices"
)

// maxGiven bounds how many anchors of a domain a note remembers. Those that were given
// first are forgotten first; what a pod was created with, its pin remembers.
const maxGiven = 32

// Given are the anchors that a process was given, by domain, in the order in which they were given first.
// They are SHA-256 fingerprints, the lower-case hex of the DER.
type Given map[Domain][]string

// GivenBy is what a publication gives to a process with these stores. What no store
// names, as the agent, trusts the authority of others.
func GivenBy(p Publication, stores []Store, others Domain) Given {
	given := Given{}
	for role, anchors := range p.Trust {
		domain := others
		if i := slices.IndexFunc(stores, func(s Store) bool { return s.Role == role }); i >= 0 {
			domain = stores[i].Trust
		}
		given[domain] = append(given[domain], anchors...)
	}
	for domain := range given {
		slices.Sort(given[domain])
		given[domain] = slices.Compact(given[domain])
	}
	return given
}

// ParseGiven reads the annotation of a pod. An unreadable one counts as none.
func ParseGiven(text string) Given {
	given := Given{}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return Given{}
	}
	return given
}

// Encode renders it as the annotation carries it.
func (g Given) Encode() (string, error) {
	text, err := json.Marshal(g)
	return string(text), err
}

// With adds what was given later.
func (g Given) With(later Given) Given {
	all := Given{}
	for _, each := range []Given{g, later} {
		for domain, anchors := range each {
			for _, anchor := range anchors {
				if !slices.Contains(all[domain], anchor) {
					all[domain] = append(all[domain], anchor)
				}
			}
		}
	}
	return all
}

// Newest is what a note remembers of it.
func (g Given) Newest() Given {
	newest := Given{}
	for domain, anchors := range g {
		newest[domain] = anchors[max(0, len(anchors)-maxGiven):]
	}
	return newest
}

// Covers reports whether everything in the other was given.
func (g Given) Covers(other Given) bool {
	for domain, anchors := range other {
		missing := func(anchor string) bool { return !slices.Contains(g[domain], anchor) }
		if slices.ContainsFunc(anchors, missing) {
			return false
		}
	}
	return true
}
