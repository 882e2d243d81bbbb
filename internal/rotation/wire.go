package rotation

import (
	"encoding/json"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// format is the version of the encoding. A reader refuses every other one.
const format = 1

// ref is a place in a table of the encoding, counted from 1. 0 is the empty value.
type ref int

// wireRecord is the encoding: fingerprints and stores stand in tables, because
// every role of every node has the same few.
type wireRecord struct {
	Format         int                            `json:"format"`
	Cluster        string                         `json:"cluster"`
	Domain         string                         `json:"domain"`
	At             time.Time                      `json:"at,omitzero"`
	StartedAt      time.Time                      `json:"startedAt,omitzero"`
	UserProvided   bool                           `json:"userProvided,omitempty"`
	Refused        string                         `json:"refused,omitempty"`
	Prints         []string                       `json:"prints,omitempty"`
	Stores         []wireStores                   `json:"stores,omitempty"`
	Issuing        ref                            `json:"issuing,omitempty"`
	Anchors        []wireAnchor                   `json:"anchors,omitempty"`
	Application    wireApplication                `json:"application,omitzero"`
	Members        []wireMember                   `json:"members,omitempty"`
	Policy         wirePolicy                     `json:"policy,omitzero"`
	Names          map[trust.AnchorID]AnchorName  `json:"names,omitempty"`
	Facts          map[trust.MemberID]MemberFacts `json:"facts,omitempty"`
	Versions       map[string]string              `json:"versions,omitempty"`
	RestartSeconds json.Number                    `json:"restartSeconds,omitempty"`
	ReloadSeconds  json.Number                    `json:"reloadSeconds,omitempty"`
}

type wireStores struct {
	Trust  []ref `json:"trust,omitempty"`
	Signer ref   `json:"signer,omitempty"`
	Cross  []ref `json:"cross,omitempty"`
}

type wireAnchor struct {
	ID          ref         `json:"id"`
	Name        string      `json:"name,omitempty"`
	Key         ref         `json:"key,omitempty"`
	NotAfter    time.Time   `json:"notAfter,omitzero"`
	Cross       []wireCross `json:"cross,omitempty"`
	NoCross     string      `json:"noCross,omitempty"`
	Stored      trust.State `json:"stored,omitempty"`
	Compromised bool        `json:"compromised,omitempty"`
	Kept        bool        `json:"kept,omitempty"`
	Removed     bool        `json:"removed,omitempty"`
	Signs       bool        `json:"signs,omitempty"`
}

type wireCross struct {
	Issuer     ref       `json:"issuer"`
	NotAfter   time.Time `json:"notAfter,omitzero"`
	Distrusted bool      `json:"distrusted,omitempty"`
}

type wireApplication struct {
	Anchors []ref     `json:"anchors,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

type wirePolicy struct {
	Paused        bool   `json:"paused,omitempty"`
	Reload        string `json:"reload,omitempty"`
	ReloadRefused string `json:"reloadRefused,omitempty"`
	Lead          string `json:"lead,omitempty"`
	Retirement    string `json:"retirement,omitempty"`
	RestartMargin string `json:"restartMargin,omitempty"`
	Issuance      string `json:"issuance,omitempty"`
}

type wireMember struct {
	ID   trust.MemberID `json:"id"`
	Kind string         `json:"kind,omitempty"`
	// Restarts is true for a member that loads only when it starts.
	Restarts bool `json:"restarts,omitempty"`
	// Leaving is true for a member that is being removed.
	Leaving bool `json:"leaving,omitempty"`
	// SecretLost is true for a member whose Secret cannot be written again.
	SecretLost bool `json:"secretLost,omitempty"`
	// Main and Late are the bundles of what is published, with the identity.
	Main       ref        `json:"main,omitempty"`
	Late       ref        `json:"late,omitempty"`
	LastsUntil time.Time  `json:"lastsUntil,omitzero"`
	Roles      []wireRole `json:"roles,omitempty"`
}

type wireRole struct {
	Name      string    `json:"name,omitempty"`
	Plane     string    `json:"plane,omitempty"`
	Verifies  bool      `json:"verifies,omitempty"`
	Presents  bool      `json:"presents,omitempty"`
	Process   string    `json:"process,omitempty"`
	Loaded    ref       `json:"loaded,omitempty"`
	Mounted   []ref     `json:"mounted,omitempty"`
	Loading   []ref     `json:"loading,omitempty"`
	Persisted []ref     `json:"persisted,omitempty"`
	Static    ref       `json:"static,omitempty"`
	HeldUntil time.Time `json:"heldUntil,omitzero"`
	Since     time.Time `json:"since,omitzero"`
}

// The words of the encoding for what internal/trust counts, by value. The first is
// left out.
func kindWords() []string       { return []string{"", "companion", "operator", "holder"} }
func processWords() []string    { return []string{"", "running", "none"} }
func reloadWords() []string     { return []string{"", "restartOnly"} }
func retirementWords() []string { return []string{"", "expired"} }
func issuanceWords() []string   { return []string{"", "offered"} }
