package stores

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"path"
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Rendered is what the server is started with.
type Rendered struct {
	// Files are the PEM stores by name. Those of key stores hold private keys.
	Files Directory
	// Properties is the whole configuration of the server.
	Properties []byte
	// Roles is what the server will trust and present, as far as that is known.
	Roles map[publication.Role]publication.RoleReport
}

// Render makes the stores and the configuration that refers to them. A store's
// name contains the digest of the certificates in it, in their order: other
// certificates always mean another name.
//
// Both slots of every store are among the files, with what is mounted: settings
// of an earlier reload may name either, and the server reads it when it starts.
func (m Matched) Render(storesDir string) Rendered {
	r := Rendered{Files: Directory{}, Roles: m.atStart()}
	var properties bytes.Buffer
	properties.Write(m.ServerConfig)
	if !bytes.HasSuffix(m.ServerConfig, []byte("\n")) {
		properties.WriteByte('\n')
	}
	for _, l := range m.Listeners {
		l = l.Loadable()
		for _, kind := range Kinds() {
			started := l.AtStart()
			name := started.File(kind)
			r.Files[name] = started.PEM(kind)
			for _, slot := range Slots() {
				r.Files[kind.Slot(l.Name, slot)] = l.PEM(kind)
			}
			fmt.Fprintf(&properties, "%s=%s\n", kind.TypeSetting(l.Name), StoreType)
			fmt.Fprintf(&properties, "%s=%s\n", kind.LocationSetting(l.Name), path.Join(storesDir, name))
		}
	}
	r.Properties = properties.Bytes()
	return r
}

// atStart says what is known of the roles before the server can be asked. The
// control plane of a controller is left out where it depends on whether settings
// of an earlier reload stand in the metadata: that is not known yet.
func (m Matched) atStart() map[publication.Role]publication.RoleReport {
	roles := map[publication.Role]publication.RoleReport{}
	for _, l := range m.Listeners {
		report := publication.RoleReportOf(l.Loadable().Identity.Chain, l.Starts)
		if l.Name == contract.ControlPlaneListener {
			roles[contract.RaftRole] = report
		}
		if !m.Config.ListensOn(l.Name) || slices.EqualFunc(l.Starts, l.Trusts, (*x509.Certificate).Equal) {
			roles[l.Name] = report
		}
	}
	return roles
}
