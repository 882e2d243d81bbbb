package reload

import (
	"bytes"
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// State is what a listener of the running server has loaded, as far as that is
// known.
type State struct {
	// Chain is what it presents, the leaf first; empty when that is unknown.
	Chain []*x509.Certificate
	// Trusts is what it accepts peers by; empty when that is unknown.
	Trusts []*x509.Certificate
	// Dynamic is true when settings of a reload stand in the metadata.
	Dynamic bool
}

// Known reports whether a handshake or a start has shown both.
func (s State) Known() bool { return len(s.Chain) > 0 && len(s.Trusts) > 0 }

// Report is the state in the words of the contract.
func (s State) Report() publication.RoleReport {
	report := publication.RoleReportOf(s.Chain, s.Trusts)
	report.Dynamic = s.Dynamic
	return report
}

// has reports whether the store of the kind holds what the listener should.
func (s State) has(kind stores.Kind, wanted stores.Listener) bool {
	loaded := s.Trusts
	if kind == stores.KeyStore() {
		loaded = s.Chain
	}
	return sameCertificates(loaded, wanted.Certificates(kind))
}

// Store is one store of one listener.
type Store struct {
	Listener publication.Role
	Kind     stores.Kind
}

// Changed lists the stores of the listeners that the server has not loaded as
// they are wanted, in their order.
func Changed(loaded map[publication.Role]State, wanted []stores.Listener) []Store {
	var changed []Store
	for _, l := range wanted {
		for _, kind := range stores.Kinds() {
			if !loaded[l.Name].has(kind, l) {
				changed = append(changed, Store{Listener: l.Name, Kind: kind})
			}
		}
	}
	return changed
}

// listenersIn are the listeners of the stores, which are in their order.
func listenersIn(changed []Store) []publication.Role {
	list := make([]publication.Role, 0, len(changed))
	for _, s := range changed {
		list = append(list, s.Listener)
	}
	return slices.Compact(list)
}

// names are the settings that reloads of the listeners use.
func names(listeners []stores.Listener) []string {
	list := make([]string, 0, 4*len(listeners))
	for _, l := range listeners {
		for _, kind := range stores.Kinds() {
			list = append(list, kind.TypeSetting(l.Name), kind.LocationSetting(l.Name))
		}
	}
	return list
}

// isDynamic reports whether any of the listener's settings stands in the metadata.
func isDynamic(listener publication.Role, settings map[string]local.Setting) bool {
	for _, kind := range stores.Kinds() {
		if settings[kind.TypeSetting(listener)].Dynamic != nil || settings[kind.LocationSetting(listener)].Dynamic != nil {
			return true
		}
	}
	return false
}

// sameCertificates compares in order.
func sameCertificates(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, (*x509.Certificate).Equal)
}

// accepts reports whether the subjects are exactly those of the anchors, as often
// as they occur: a server names each of its anchors, and two may share a subject.
func accepts(authorities [][]byte, anchors []*x509.Certificate) bool {
	wanted := make([][]byte, 0, len(anchors))
	for _, anchor := range anchors {
		wanted = append(wanted, anchor.RawSubject)
	}
	slices.SortFunc(wanted, bytes.Compare)
	return slices.EqualFunc(slices.SortedFunc(slices.Values(authorities), bytes.Compare), wanted, bytes.Equal)
}
