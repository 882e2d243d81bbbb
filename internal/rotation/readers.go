package rotation

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Readers are applications by what they read of the Secret with the CA's certificate. Keyturn keeps old
// and new in ca.crt of its own CAs while any peer needs the old one. The owner of another CA writes its
// ca.crt, which usually has room for only one.
type Readers string

// Who is meant. Each includes those before it.
const (
	NoReader Readers = ""
	// FirstReaders read the first entry of ca.crt.
	FirstReaders Readers = "first"
	// CaCrtReaders read ca.crt alone.
	CaCrtReaders Readers = "ca.crt"
	// EveryReader includes those that read every *.crt.
	EveryReader Readers = "all"
)

// words are what people call applications that do not find an old CA, and those that
// do, and what helps the first.
func (r Readers) words() (lost, served, remedy string) {
	switch r {
	case FirstReaders:
		return "the first entry of ca.crt alone", "all of ca.crt or every *.crt", "let it read all of ca.crt"
	case CaCrtReaders:
		return "ca.crt alone", "every *.crt", "let it read every *.crt of the Secret"
	case EveryReader:
		return "ca.crt or every *.crt", "", "keep the old CA beside ca.crt as ca-<its expiry>.crt, and let it read every *.crt of the Secret"
	default:
		return "", "", ""
	}
}

// lost are the most readers that an old anchor is lost to, with those anchors.
func (v *view) lost(names map[trust.AnchorID]AnchorName) (Readers, []*trust.Anchor) {
	order := []Readers{NoReader, FirstReaders, CaCrtReaders, EveryReader}
	most, anchors := NoReader, []*trust.Anchor(nil)
	for _, a := range v.others() {
		to := names[a.ID].LostTo
		if to == NoReader {
			continue
		}
		anchors = append(anchors, a)
		if slices.Index(order, to) > slices.Index(order, most) {
			most = to
		}
	}
	return most, anchors
}

// readerOutlooks are about clients that read the Secret with the CA's certificate.
func (v *view) readerOutlooks(r Record, strategy trust.StrategyKind, w *work) []Outlook {
	readers, anchors := v.lost(r.Anchors)
	change := "the change of ca.crt"
	if readers == NoReader {
		change = "the new entry in ca.crt"
	}
	looking := Outlook{Client: v.words.Clients.Rereading, What: "nothing"}
	if strategy == trust.Classic && !v.under(r.Anchors) {
		looking.What = fmt.Sprintf("nothing, if it looks again within %s of %s", v.Policy.Lead, change)
	}
	if readers == NoReader {
		return []Outlook{looking}
	}
	lost, served, remedy := readers.words()
	refused := Outlook{Client: "reads " + lost, What: "nothing more, because every node presents the new CA"}
	if old := v.shown(anchors, r.Anchors); old != "" {
		refused.Notices = true
		refused.What = fmt.Sprintf("it rejects nodes that present %s, from when it reads the new ca.crt until every node presents %s%s; %s",
			old, Label(v.Issuing, r.Anchors), v.about(w.turned), remedy)
	}
	if served == "" {
		return []Outlook{refused}
	}
	looking.Client = "reads " + served + ", and looks again"
	return []Outlook{looking, refused}
}

// about is a time of the forecast, if it has one.
func (v *view) about(after Seconds) string {
	if after < 0 {
		return ""
	}
	return ", at about " + moment(v.Now.Add(time.Duration(float64(after)*float64(time.Second))))
}

// refusals names applications that an owner's change of ca.crt cuts off from nodes.
func (v *view) refusals(names map[trust.AnchorID]AnchorName) string {
	if v.target == nil {
		return ""
	}
	readers, anchors := v.lost(names)
	lost, _, remedy := readers.words()
	old := v.shown(anchors, names)
	if old == "" {
		return ""
	}
	return fmt.Sprintf("an application that reads %s rejects nodes that still present %s: %s", lost, old, remedy)
}

// shown names those of the anchors of which a node presents leaves to clients.
func (v *view) shown(anchors []*trust.Anchor, names map[trust.AnchorID]AnchorName) string {
	var old []string
	for _, a := range anchors {
		if v.anyNodePresents(a.Key) {
			old = append(old, Label(a.ID, names))
		}
	}
	return some(old)
}

// anyNodePresents reports whether a node presents to clients, or may, what a key has
// signed.
func (v *view) anyNodePresents(key trust.KeyID) bool {
	return slices.ContainsFunc(v.Members, func(m trust.Member) bool { return m.Kind == trust.Node && presentsOf(&m, key) })
}

func presentsOf(m *trust.Member, key trust.KeyID) bool {
	return slices.ContainsFunc(m.Roles, func(r trust.Role) bool {
		signer := r.Evidence.Loaded.Identity.Signer
		if r.Evidence.Process != trust.ProcessRunning {
			signer = m.Published.Identity.Signer
		}
		return r.Presents && r.Plane.Bundle == trust.Main && signer == key
	})
}

// under reports whether every peer that trusts what is to be removed verifies the chains that nodes
// present with leaves of the new CA.
func (v *view) under(names map[trust.AnchorID]AnchorName) bool {
	return !slices.ContainsFunc(v.others(), func(a *trust.Anchor) bool { return !names[a.ID].Above })
}
